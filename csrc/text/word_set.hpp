// A set of words and phrases to search for in documents, such as stop words and flagged words.
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
    // Each entry is a word or a phrase of at most MAX_WORDS words, in UTF-8. Comparisons ignore case, apostrophes and
    // joiners, but not marks. Throws std::invalid_argument for an entry without words or with too many words.
    WordSet(const std::vector<Bytes>& entries, bool unspaced);

    // Returns how many of a document's words belong to an entry. `words` holds the hash_word of each word.
    std::size_t covered(const std::vector<std::uint64_t>& words) const;

  private:
    bool contains(std::uint64_t key) const;
    void insert(std::uint64_t key);

    static constexpr std::uint64_t EMPTY = 0;
    std::vector<std::uint64_t> slots_;
    std::vector<std::size_t> lengths_;  // distinct lengths of the entries in words, largest first
    std::size_t mask_ = 0;
};

}  // namespace bloomery::text
