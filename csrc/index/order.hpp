// The order of documents and of samples: every epoch a random permutation of its own, made in cache-sized pieces.
//
// A permutation scatters its items into buckets by the leading bits of one random number an item, then shuffles each
// bucket by Fisher and Yates. That is a sort by independent uniform keys (the bits that a bucket's items have not drawn
// are replaced by an order drawn uniformly), so every permutation is equally likely: Rao 1961, Sandelius 1962. Items are
// moved once, to a few thousand places that are each written in turn, and swapped within the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bloomery::index {

// Items of one permutation after the other. Holds at most about `band` items at a time, whatever the size: buckets are
// gathered in bands, and one more band costs one more pass of the random numbers.
class Permutation {
   public:
    // `items`: what is permuted, or null for the numbers from 0 on. `band`: at least 1.
    Permutation(const std::uint64_t* items, std::size_t band) : items_(items), band_(band) {}

    // Begins the permutation `key` of the first `size` items.
    void start(std::uint64_t size, std::uint64_t key);

    // Writes the next items, at most `most`, to `out`; returns how many: 0 at the end. `wanted` (0: any number): of no
    // more than these the caller will ever ask, so that little is gathered for little.
    std::size_t take(std::uint64_t* out, std::size_t most, std::uint64_t wanted);

    // Passes over the rows that lie wholly before token `token` of the permutation (a row's tokens: see walk.hpp), bucket
    // by bucket; returns how many rows were passed, and leaves in `token` how many tokens behind them it lies.
    std::uint64_t skip(std::uint64_t& token);

   private:
    std::size_t bucket_of(std::uint64_t item) const;
    void gather(std::uint64_t wanted);

    const std::uint64_t* items_;
    std::size_t band_;
    std::uint64_t size_ = 0;
    std::uint64_t key_ = 0;
    int bits_ = 0;                        // of the number of buckets
    std::size_t next_bucket_ = 0;         // first that was not gathered
    std::vector<std::uint64_t> counts_;   // items a bucket
    std::vector<std::uint64_t> cursors_;  // where a bucket's next item goes
    std::vector<std::uint64_t> gathered_;  // grows, and is not shrunk
    std::size_t filled_ = 0;               // of it
    std::size_t read_ = 0;                 // of these
};

// The rows of a dataset, epoch after epoch without end.
class EpochOrder {
   public:
    EpochOrder(const std::uint64_t* rows, std::size_t size, std::uint64_t key, std::uint64_t epoch, std::size_t band)
        : permutation_(rows, band), size_(size), key_(key), epoch_(epoch) {}

    // Writes the next `count` rows; see `Permutation::take` for `wanted`. There must be a row.
    void take(std::uint64_t* out, std::size_t count, std::uint64_t wanted);

   private:
    Permutation permutation_;
    std::uint64_t size_;
    std::uint64_t key_;
    std::uint64_t epoch_;  // that the next permutation belongs to
};

// Place, in the order of an epoch, of the row that holds token `token` of it (less than the rows' tokens).
std::uint64_t place_of(const std::uint64_t* rows, std::size_t size, std::uint64_t key, std::uint64_t epoch,
                       std::uint64_t token);

// Sample numbers, epoch after epoch without end: those that start in the same epoch in blocks of `block`, each shuffled.
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
    std::uint64_t epoch_;        // that comes after the one that is being taken
    std::uint64_t block_;
    std::uint64_t blocks_ = 0;   // of this epoch that were begun
    std::uint64_t first_ = 0;    // sample of the block that is being taken
    std::uint64_t next_ = 0;     // first sample behind the block
    std::uint64_t behind_ = 0;   // and behind the epoch
    std::uint64_t surplus_ = 0;  // tokens of that sample's start that lie behind the epoch's end
};

}  // namespace bloomery::index
