// All pieces of text as sequences of tokens (words), concatenated in one array of 32-bit cells:
//
//     high half of the count, low half, token, token, ..., END, [END ...]
//
// A word that becomes shorter is padded with END, so the array can always be read from its beginning. `compact` removes
// this padding. A word is identified by the cell of its first token. Count and tokens are usually on one cache line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "grow_array.hpp"

namespace bloomery::bpe {

using Token = std::int32_t;
using Word = std::uint32_t;

class Words {
  public:
    static constexpr Token END = -1;

    // Adds a piece of at least two bytes, in which byte b has the token `symbols[b]`. Throws std::length_error if all
    // words together would need more than 2^32 cells.
    template <class Symbols>
    void add(const std::uint8_t* begin, const std::uint8_t* end, std::int64_t count, const Symbols& symbols) {
        const auto length = static_cast<std::uint64_t>(end - begin);
        constexpr std::uint64_t CELLS = std::numeric_limits<Word>::max();
        if (length + HEADER + 1 > CELLS - cells_.size()) throw std::length_error("the pieces need more than 2^32 cells");
        cells_.push_back(static_cast<Token>(count >> 32));
        cells_.push_back(static_cast<Token>(static_cast<std::uint32_t>(count)));
        for (; begin != end; ++begin) cells_.push_back(symbols[*begin]);
        cells_.push_back(END);
    }

    std::int64_t count(Word word) const {
        const auto high = static_cast<std::uint32_t>(cells_[word - 2]), low = static_cast<std::uint32_t>(cells_[word - 1]);
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(high) << 32 | low);
    }
    // Returns the word's tokens, which end with END.
    Token* operator[](Word word) { return cells_.begin() + word; }

    // Calls visit(word) for each word, in the order in which the words were added.
    template <class Visit>
    void for_each(Visit visit) {
        for (std::size_t at = 0; at < cells_.size();) {
            visit(static_cast<Word>(at + HEADER));
            at = next(at);
        }
    }

    // Removes the padding and the words for which keep(word) is false. The other words move, so their identifying cells
    // change.
    template <class Keep>
    void compact(Keep keep) {
        std::size_t to = 0;
        for (std::size_t at = 0; at < cells_.size();) {
            const std::size_t behind = next(at);
            if (keep(static_cast<Word>(at + HEADER))) {
                std::size_t from = at;
                for (; from < at + HEADER; ++from) cells_[to++] = cells_[from];
                do cells_[to++] = cells_[from];
                while (cells_[from++] != END);
            }
            at = behind;
        }
        cells_.resize(to);
        cells_.shrink();
    }

    void prefetch(Word word) const {
#if defined(__GNUC__)
        __builtin_prefetch(&cells_[word], 1);
#endif
        (void)word;
    }

  private:
    static constexpr std::size_t HEADER = 2;

    std::size_t next(std::size_t at) const {
        at += HEADER;
        while (cells_[at] != END) ++at;
        while (at < cells_.size() && cells_[at] == END) ++at;
        return at;
    }

    GrowArray<Token> cells_;
};

}  // namespace bloomery::bpe
