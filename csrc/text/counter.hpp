// Counts 64-bit hashes in an open-addressing hash table, which is reused for all documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hash.hpp"

namespace bloomery::text {

class Counter {
  public:
    // Empties the table and makes room for `expected` additions.
    void reset(std::size_t expected) {
        std::size_t capacity = 16;
        while (capacity < expected * 2) capacity *= 2;
        keys_.assign(capacity, EMPTY);
        if (counts_.size() < capacity) counts_.resize(capacity);
        mask_ = capacity - 1;
        distinct_ = 0;
        repeated_.clear();
    }

    void prefetch(std::uint64_t hash) const {
#if defined(__GNUC__)
        __builtin_prefetch(&keys_[hash & mask_], 1);
#else
        (void)hash;
#endif
    }

    // Adds `hash` and returns its new count. The low bits of `hash` must be well mixed.
    std::uint64_t add(std::uint64_t hash) {
        if (hash == EMPTY) hash = 1;
        std::size_t slot = hash & mask_;
        while (keys_[slot] != hash) {
            if (keys_[slot] == EMPTY) {
                keys_[slot] = hash;
                ++distinct_;
                return counts_[slot] = 1;
            }
            slot = (slot + 1) & mask_;
        }
        if (++counts_[slot] == 2) repeated_.push_back(slot);
        return counts_[slot];
    }

    // Returns how often `hash` was added.
    std::uint64_t count(std::uint64_t hash) const {
        if (hash == EMPTY) hash = 1;
        std::size_t slot = hash & mask_;
        while (keys_[slot] != hash) {
            if (keys_[slot] == EMPTY) return 0;
            slot = (slot + 1) & mask_;
        }
        return counts_[slot];
    }

    std::size_t distinct() const { return distinct_; }

    // Replaces `out` by the counts of the hashes that were added more than once.
    void repeated_counts(std::vector<std::uint64_t>& out) const {
        out.clear();
        for (const std::size_t slot : repeated_) out.push_back(counts_[slot]);
    }

  private:
    static constexpr std::uint64_t EMPTY = 0;
    std::vector<std::uint64_t> keys_;
    std::vector<std::uint64_t> counts_;  // valid where the key is not EMPTY
    std::vector<std::size_t> repeated_;
    std::size_t mask_ = 0;
    std::size_t distinct_ = 0;
};

}  // namespace bloomery::text
