// Index of the pairs of adjacent tokens that are frequent enough to be merged soon. It holds the count and the words of
// each pair and finds the most frequent pair.
//
// A new pair that contains token T can appear only during the merge that creates T. The count of a pair therefore never
// rises later, and the pair's list of words is written once. This keeps the index small and fast:
// (1) A pair whose first count is below the minimum is never stored.
// (2) One queue entry per pair is enough, because an outdated entry can only be too high.
// (3) Lists are slices of one arena. Dead pairs are removed when they are more than half of the pairs or hold more than
//     a quarter of the arena.
#pragma once

#include <cstddef>
#include <cstdint>

#include "grow_array.hpp"
#include "words.hpp"

namespace bloomery::bpe {

inline std::uint64_t pair_key(Token left, Token right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

inline std::size_t hash_of(std::uint64_t key) {
    key = (key ^ (key >> 29)) * 0xBF58476D1CE4E5B9u;
    return static_cast<std::size_t>(key ^ (key >> 32));
}

struct Pair {
    std::uint64_t key;         // left << 32 | right; keys compare as (left, right)
    std::int64_t count;        // 0 for a dead pair, which is no longer used
    std::uint64_t first_word;  // start of the pair's slice of the arena
    std::uint32_t words;       // length of the pair's slice of the arena

    Token left() const { return static_cast<Token>(key >> 32); }
    Token right() const { return static_cast<Token>(key & 0xFFFFFFFFu); }
};

class Pairs {
  public:
    static constexpr std::uint32_t NONE = 0xFFFFFFFFu;

    // Removes all pairs. Pairs that occur less often than `minimum` (at least 1) will not be stored.
    void restart(std::int64_t minimum);
    // Counts a pair in one more word, with `count` occurrences. Stores new pairs. Call this between `restart` and
    // `settle`.
    void tally(std::uint64_t key, std::int64_t count);
    // Removes the tallied pairs below the minimum, and allocates the slices for the words of the other pairs.
    void settle();

    // Adds a pair with room for `words` words, and returns its index, which is valid until the next sweep.
    std::size_t add(std::uint64_t key, std::int64_t count, std::uint32_t words);
    // Returns the index of a pair, or NONE if the pair is not stored.
    std::uint32_t index(std::uint64_t key) const { return table_[find(key)]; }
    // Appends a word to the pair's slice, which must have room. A word equal to the last one is not appended.
    void add_word(std::size_t index, Word word);
    // Subtracts `count` from the count of a pair, if the pair is stored. A pair that falls below the minimum is dead.
    void subtract(std::uint64_t key, std::int64_t count);
    // Finds the index of the most frequent pair; of equally frequent pairs, the smallest (left, right). Returns false
    // if no pair is left.
    bool best(std::size_t& index);
    void remove(std::size_t index);
    // Frees the memory of dead pairs if there are many of them.
    void sweep();

    const Pair& operator[](std::size_t index) const { return pairs_[index]; }
    const Word* words(const Pair& pair) { return arena_.begin() + pair.first_word; }

  private:
    struct Candidate {
        std::int64_t count;
        std::uint64_t key;
        bool operator<(const Candidate& other) const {
            return count != other.count ? count < other.count : key > other.key;
        }
    };

    std::size_t find(std::uint64_t key) const;  // slot that holds the key, or the free slot where it would go
    std::uint32_t& slot_for_new(std::uint64_t key);
    void rebuild_table(std::size_t capacity);
    void rebuild_queue();
    void kill(Pair& pair);

    std::int64_t minimum_ = 1;
    GrowArray<Pair> pairs_;           // in the order of creation, and therefore of first_word
    GrowArray<Word> arena_;
    GrowArray<std::uint32_t> table_;  // hash table with open addressing: index into pairs_, or NONE
    GrowArray<Candidate> queue_;      // binary heap
    std::size_t mask_ = 0;
    std::size_t dead_pairs_ = 0;
    std::size_t dead_words_ = 0;
};

}  // namespace bloomery::bpe
