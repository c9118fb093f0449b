// The pairs of adjacent tokens that are frequent enough to be merged soon: how often each occurs, which words hold it,
// and which is the most frequent.
//
// What keeps this small and fast: a pair that involves token T can only come into being while T is made, so its count
// never rises later and its list of words is written once. Hence (1) a pair that begins below the minimum is never
// stored; (2) one queue entry a pair is enough, because a stale entry only overestimates; (3) lists are slices of one
// arena, and the dead are swept out when they are half of the pairs or hold a quarter of the arena.
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
    std::uint64_t key;  // left << 32 | right: comparing keys compares (left, right)
    std::int64_t count;  // 0: dead
    std::uint64_t first_word;  // begin of its slice of the arena
    std::uint32_t words;       // length of that slice

    Token left() const { return static_cast<Token>(key >> 32); }
    Token right() const { return static_cast<Token>(key & 0xFFFFFFFFu); }
};

class Pairs {
  public:
    static constexpr std::uint32_t NONE = 0xFFFFFFFFu;

    // Forgets all pairs; from now on those that occur less often than `minimum` (at least 1) are forgotten, too.
    void restart(std::int64_t minimum);
    // Counts an occurrence of a pair, which becomes known by it. Between `restart` and `settle`.
    void tally(std::uint64_t key, std::int64_t count);
    // Makes room for the words of what was tallied.
    void settle();

    // Adds a pair with room for `words` word numbers and returns its index, valid until the next sweep.
    std::size_t add(std::uint64_t key, std::int64_t count, std::uint32_t words);
    // Index of a pair; NONE if it is not known.
    std::uint32_t index(std::uint64_t key) const { return table_[find(key)]; }
    // Appends a word to a slice that still has room; a word equal to the slice's last one is left out.
    void add_word(std::size_t index, Word word);
    // Takes `count` off a pair, if it is known.
    void subtract(std::uint64_t key, std::int64_t count);
    // Index of the most frequent pair, the smallest (left, right) among equals; false if there is none.
    bool best(std::size_t& index);
    void remove(std::size_t index);
    // Sweeps out the dead if they are many.
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

    std::size_t find(std::uint64_t key) const;  // slot that holds the key, or the free slot where it belongs
    std::uint32_t& slot_for_new(std::uint64_t key);
    void rebuild_table(std::size_t capacity);
    void rebuild_queue();
    void kill(Pair& pair);

    std::int64_t minimum_ = 1;
    GrowArray<Pair> pairs_;           // in the order of creation, hence of first_word
    GrowArray<Word> arena_;
    GrowArray<std::uint32_t> table_;  // open addressing: index into pairs_ or NONE
    GrowArray<Candidate> queue_;      // a binary heap
    std::size_t mask_ = 0;
    std::size_t dead_pairs_ = 0;
    std::size_t dead_words_ = 0;
};

}  // namespace bloomery::bpe
