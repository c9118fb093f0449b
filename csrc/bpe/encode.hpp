// Encodes text to tokens by byte-level BPE. In each piece, the pair of lowest rank (the leftmost of equal pairs) is
// merged until no pair can be merged, as in Hugging Face `tokenizers`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "merge_table.hpp"
#include "piece_cache.hpp"
#include "split.hpp"

namespace bloomery::bpe {

// Only one thread at a time may use an encoder, because it has a cache.
class Encoder {
  public:
    // See MergeTable for `bytes` and `merges`. `poll` is called repeatedly during long work and may throw to end it.
    Encoder(const std::array<Token, 256>& bytes, const std::vector<Merge>& merges, SplitRules rules,
            std::function<void()> poll);

    // Writes the tokens of a text to `out` and returns the end of the tokens. `out` needs room for one token per byte.
    Token* encode(const std::uint8_t* begin, const std::uint8_t* end, Token* out);

  private:
    Token* encode_piece(const std::uint8_t* begin, const std::uint8_t* end, Token* out);
    Token* merge_short(const std::uint8_t* piece, std::size_t length, Token* out) const;
    Token* merge_long(const std::uint8_t* piece, std::size_t length, Token* out);
    void did(std::size_t work);

    // A token of a long piece, in a linked list. `previous` and `next` are byte positions in the piece.
    struct Symbol {
        Token token;
        std::uint32_t previous, next;
    };

    std::array<Token, 256> bytes_;
    MergeTable merges_;
    SplitRules rules_;
    std::function<void()> poll_;
    std::size_t since_poll_ = 0;
    PieceCache cache_;
    std::vector<Symbol> symbols_;
    std::vector<std::uint64_t> heap_;
};

}  // namespace bloomery::bpe
