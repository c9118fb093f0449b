// Byte-pair encoding (Sennrich, Haddow, Birch 2016) learnt from counted pieces of text.
//
// Only pairs that occur at least T times are indexed. When none is left, T is lowered and the words are read again: by
// then most have shrunk, and millions of rare pairs, which no vocabulary has room for, never take memory. The merges do
// not depend on T, because the count of a pair never rises (see pairs.hpp): what falls below T now is not the best pair
// before all that are above it are gone.
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

    // A piece and how often it occurs; pieces that cannot be merged, or never occur, are not stored.
    // Throws std::invalid_argument if the count is negative or if all counts together overflow 64 bits,
    // std::length_error if the pieces are too many.
    void add(const std::uint8_t* begin, const std::uint8_t* end, std::int64_t count);

    // At most `merges`; merge k makes token 256 + k. `poll` is called with the merges done now and then and may throw.
    // To be called once: it uses up the pieces.
    std::vector<std::pair<Token, Token>> train(std::int64_t merges, const std::function<void(std::size_t)>& poll);

  private:
    // A neighbour of the token being made: to its left (side 0) or its right (side 1).
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
    std::int64_t minimum_;  // the least count of the pairs that are indexed
    GrowArray<Sighting> sightings_;        // of the current merge
    GrowArray<std::uint32_t> seen_;        // which neighbour << 1 | side have an entry in the following two
    std::vector<std::int64_t> seen_count_;   // by neighbour << 1 | side
    std::vector<std::uint32_t> seen_words_;  // sightings; then the pair's index
    std::vector<std::int64_t> bytes_;      // length of each token
    std::int64_t total_ = 0;               // occurrences of all pairs
};

}  // namespace bloomery::bpe
