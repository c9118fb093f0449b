// A list of words that is looked for in documents: stop words, flagged words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "unicode.hpp"

namespace bloomery::text {

class WordSet {
  public:
    static constexpr std::size_t MAX_WORDS = 8;

    WordSet() = default;
    // Each entry is a word, or a phrase of at most MAX_WORDS words, in UTF-8; case, apostrophes and joiners do not
    // count, marks do. Throws std::invalid_argument for an entry without a word and for one with too many.
    WordSet(const std::vector<Bytes>& entries, bool unspaced);

    // How many of a document's words belong to an entry. `words` holds the hash of each, as hash_word gives it.
    std::size_t covered(const std::vector<std::uint64_t>& words) const;

  private:
    bool contains(std::uint64_t key) const;
    void insert(std::uint64_t key);

    static constexpr std::uint64_t EMPTY = 0;
    std::vector<std::uint64_t> slots_;
    std::vector<std::size_t> lengths_;  // of the entries, in words, each once, the greatest first
    std::size_t mask_ = 0;
};

}  // namespace bloomery::text
