// Computes the order of documents and of samples. Every epoch has its own random permutation, computed in cache-sized
// pieces.
//
// A permutation draws one random number per item and scatters the items into buckets by the leading bits. Then it
// shuffles each bucket with the algorithm of Fisher and Yates. This equals a sort by independent uniform keys, in which
// a uniform shuffle replaces the remaining bits of each key. Every permutation is therefore equally likely (Rao 1961,
// Sandelius 1962). Each item is written to memory once, to one of a few thousand buckets that are written sequentially.
// All later swaps happen in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bloomery::index {

// Yields the items of a permutation. At most about `band` items are in memory at a time, whatever the size. Buckets are
// gathered in bands, and each band needs one pass over the random numbers.
class Permutation {
   public:
    // `items` is the array to permute, or null to permute the numbers from 0 on. `band` must be at least 1.
    Permutation(const std::uint64_t* items, std::size_t band) : items_(items), band_(band) {}

    // Starts a permutation of the first `size` items, which depends on `key`.
    void start(std::uint64_t size, std::uint64_t key);

    // Writes at most `most` next items to `out`. Returns their number, which is 0 at the end. `wanted` is the number of
    // items that the caller will still take at most, or 0 if unknown. With a small value, fewer buckets are gathered.
    std::size_t take(std::uint64_t* out, std::size_t most, std::uint64_t wanted);

    // Skips the buckets that end at or before token `token` of the permutation (walk.hpp defines a row's tokens).
    // Returns the number of rows skipped and reduces `token` by the number of their tokens.
    std::uint64_t skip(std::uint64_t& token);

   private:
    std::size_t bucket_of(std::uint64_t item) const;
    void gather(std::uint64_t wanted);

    const std::uint64_t* items_;
    std::size_t band_;
    std::uint64_t size_ = 0;
    std::uint64_t key_ = 0;
    int bits_ = 0;                        // bits of a bucket number
    std::size_t next_bucket_ = 0;         // first bucket that is not gathered yet
    std::vector<std::uint64_t> counts_;   // number of items in each bucket
    std::vector<std::uint64_t> cursors_;  // position at which the next item of each gathered bucket is written
    std::vector<std::uint64_t> gathered_;  // items of the gathered buckets; this buffer never shrinks
    std::size_t filled_ = 0;               // number of items in gathered_
    std::size_t read_ = 0;                 // number of items of gathered_ that were taken
};

// Yields the rows of a dataset in reading order, for any number of epochs.
class EpochOrder {
   public:
    EpochOrder(const std::uint64_t* rows, std::size_t size, std::uint64_t key, std::uint64_t epoch, std::size_t band)
        : permutation_(rows, band), size_(size), key_(key), epoch_(epoch) {}

    // Writes the next `count` rows to `out`. `Permutation::take` explains `wanted`. The dataset must not be empty.
    void take(std::uint64_t* out, std::size_t count, std::uint64_t wanted);

   private:
    Permutation permutation_;
    std::uint64_t size_;
    std::uint64_t key_;
    std::uint64_t epoch_;  // epoch of the next permutation
};

// Returns the position, in the order of `epoch`, of the row that holds token `token` of that epoch. `token` must be
// less than the number of tokens of all rows.
std::uint64_t place_of(const std::uint64_t* rows, std::size_t size, std::uint64_t key, std::uint64_t epoch,
                       std::uint64_t token);

// Yields sample numbers for any number of epochs. Samples that start in the same epoch are shuffled in blocks of
// `block`.
class SampleOrder {
   public:
    SampleOrder(std::uint64_t tokens, std::uint64_t sequence_length, std::uint64_t key, std::uint64_t epoch,
                std::uint64_t block);

    void take(std::uint64_t* out, std::size_t count);

   private:
    void next_block();
    void next_epoch();

    Permutation permutation_;
    std::uint64_t tokens_;
    std::uint64_t sequence_length_;
    std::uint64_t key_;
    std::uint64_t epoch_;        // the epoch after the current one
    std::uint64_t block_;
    std::uint64_t blocks_ = 0;   // number of blocks of the current epoch that were started
    std::uint64_t first_ = 0;    // first sample of the current block
    std::uint64_t next_ = 0;     // first sample after the current block
    std::uint64_t behind_ = 0;   // first sample after the current epoch
    std::uint64_t surplus_ = 0;  // tokens from the end of the current epoch to the start of sample behind_
};

}  // namespace bloomery::index
