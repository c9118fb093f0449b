// Text to tokens by byte-level BPE: in each piece the pair of lowest rank is merged, the leftmost among equals, until
// none is left, as Hugging Face `tokenizers` does.
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

// Holds a cache, hence for one thread at a time.
class Encoder {
  public:
    // See MergeTable. `poll` is called now and then in long work, and may throw to end it.
    Encoder(const std::array<Token, 256>& bytes, const std::vector<Merge>& merges, SplitRules rules,
            std::function<void()> poll);

    // Writes the tokens of a text to `out`, which has room for one a byte; returns their end.
    Token* encode(const std::uint8_t* begin, const std::uint8_t* end, Token* out);

  private:
    Token* encode_piece(const std::uint8_t* begin, const std::uint8_t* end, Token* out);
    Token* merge_short(const std::uint8_t* piece, std::size_t length, Token* out) const;
    Token* merge_long(const std::uint8_t* piece, std::size_t length, Token* out);
    void did(std::size_t work);

    // A token of a long piece, in a list; `next` and `previous` are positions in the piece's bytes.
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
