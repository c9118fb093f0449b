// Byte-pair encoding (Sennrich, Haddow, Birch 2016) learnt from counted pieces of text.
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
    std::int64_t merges;                  // make at most so many
    std::int64_t min_frequency;           // stop when the best pair occurs less often
    std::int64_t max_token_bytes;         // never make a longer token
};

class Trainer {
  public:
    explicit Trainer(const Settings& settings);

    // A piece and how often it occurs; pieces that cannot be merged, or never occur, are not stored.
    // Throws std::invalid_argument if the count is negative or if all counts together overflow 64 bits.
    void add(const std::uint8_t* begin, const std::uint8_t* end, std::int64_t count);

    // Merge k makes token 256 + k. `poll` is called now and then and may throw.
    std::vector<std::pair<Token, Token>> train(const std::function<void()>& poll);

  private:
    // A neighbour of the token being made: to its left (side 0) or its right (side 1).
    struct Sighting {
        std::uint32_t neighbour_and_side;  // neighbour << 1 | side
        Word word;
    };

    void index_byte_pairs();
    void merge(Token left, Token right, Token made, const Word* words, std::size_t count);
    void merge_in_word(Token left, Token right, Token made, Word word);
    void index_new_pairs(Token left, Token right, Token made);
    void see(Token neighbour, unsigned side, Word word);

    Settings settings_;
    Pairs pairs_;
    GrowArray<Token> symbols_;             // all words; a word that has shrunk ends in END
    GrowArray<std::uint64_t> first_;       // where each word begins in symbols_, and one more
    GrowArray<std::int64_t> counts_;       // of each word
    GrowArray<Sighting> sightings_;        // of the current merge
    GrowArray<std::uint32_t> seen_;        // which neighbour << 1 | side have an entry in the following two
    std::vector<std::int64_t> seen_count_;   // by neighbour << 1 | side
    std::vector<std::uint32_t> seen_words_;  // sightings; then the pair's index
    std::vector<std::int64_t> bytes_;      // length of each token
    std::int64_t total_ = 0;               // occurrences of all pairs
};

}  // namespace bloomery::bpe
