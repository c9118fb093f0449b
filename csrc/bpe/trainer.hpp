// Trains byte-pair encoding (Sennrich, Haddow, Birch 2016) on counted pieces of text.
//
// Only pairs that occur at least T times are indexed. When no indexed pair is left, T is lowered and the words are
// indexed again. Most words have become shorter by then. Millions of rare pairs, for which no vocabulary has room,
// therefore never take memory. The merges do not depend on T, because the count of a pair never rises (see pairs.hpp).
// While a pair with at least T occurrences is left, no pair below T can be the most frequent pair.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "pairs.hpp"

namespace bloomery::bpe {

struct Settings {
    std::array<Token, 256> symbol_order;  // id of each byte
    std::int64_t min_frequency;           // never merge a pair that occurs less often
    std::int64_t max_token_bytes;         // never make a longer token
};

class Trainer {
  public:
    explicit Trainer(const Settings& settings);

    // Adds a piece that occurs `count` times. Pieces of one byte and pieces with count 0 are not stored.
    // Throws std::invalid_argument if the count is negative or if the sum of all counts overflows 64 bits. Throws
    // std::length_error if there are too many pieces.
    void add(const std::uint8_t* begin, const std::uint8_t* end, std::int64_t count);

    // Returns at most `merges` merges. Merge k makes token 256 + k. `poll` is called repeatedly with the number of
    // merges so far. An exception of `poll` ends the training. Call this once, because training consumes the pieces.
    std::vector<std::pair<Token, Token>> train(std::int64_t merges, const std::function<void(std::size_t)>& poll);

  private:
    // A token next to an occurrence of the merged pair: to the left (side 0) or to the right (side 1).
    struct Sighting {
        std::uint32_t neighbour_and_side;  // neighbour << 1 | side
        Word word;
    };

    bool fits(Token left, Token right) const;
    bool index_pairs();
    void merge(Token left, Token right, Token made, const Word* words, std::size_t count);
    void merge_in_word(Token left, Token right, Token made, Word word);
    void index_new_pairs(Token left, Token right, Token made);
    void see(Token neighbour, unsigned side, Word word);

    Settings settings_;
    Pairs pairs_;
    Words words_;
    std::int64_t minimum_;                   // pairs with a smaller count are not indexed
    GrowArray<Sighting> sightings_;          // sightings of the current merge
    GrowArray<std::uint32_t> seen_;          // keys (neighbour << 1 | side) with entries in seen_count_ and seen_words_
    std::vector<std::int64_t> seen_count_;   // by key: occurrences in the text
    std::vector<std::uint32_t> seen_words_;  // by key: number of sightings, then the index of the new pair
    std::vector<std::int64_t> bytes_;        // by token: length in bytes
    std::int64_t total_ = 0;                 // occurrences of all pairs
};

}  // namespace bloomery::bpe
