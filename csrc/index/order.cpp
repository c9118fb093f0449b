#include "order.hpp"

#include <algorithm>
#include <utility>

#include "random.hpp"
#include "walk.hpp"

namespace bloomery::index {
namespace {

// Target number of items per bucket: 256 KiB, half of a small second-level cache.
constexpr std::uint64_t kBucketItems = 1u << 15;
// Maximum bits of a bucket number. With more buckets, the scatter would miss the TLB, so larger inputs get larger
// buckets.
constexpr int kMostBits = 13;

}  // namespace

void Permutation::start(std::uint64_t size, std::uint64_t key) {
    size_ = size;
    key_ = key;
    bits_ = 0;
    while (bits_ < kMostBits && (size >> bits_) > kBucketItems) ++bits_;
    next_bucket_ = 0;
    read_ = filled_ = 0;
    counts_.assign(std::size_t{1} << bits_, 0);
    if (bits_ == 0) {
        counts_[0] = size;
    } else {
        for (std::uint64_t item = 0; item < size; ++item) ++counts_[bucket_of(item)];
    }
}

std::size_t Permutation::bucket_of(std::uint64_t item) const {
    return static_cast<std::size_t>(random_at(key_, item) >> (64 - bits_));
}

void Permutation::gather(std::uint64_t wanted) {
    const std::uint64_t room = wanted ? std::min<std::uint64_t>(band_, wanted) : band_;
    const std::size_t first = next_bucket_;
    std::uint64_t total = 0;
    cursors_.clear();
    do {
        cursors_.push_back(total);
        total += counts_[next_bucket_++];
    } while (next_bucket_ < counts_.size() && total + counts_[next_bucket_] <= room);
    const std::size_t buckets = cursors_.size();
    if (gathered_.size() < total) gathered_.resize(total);
    read_ = 0;
    filled_ = total;
    std::uint64_t* const to = gathered_.data();
    if (bits_ == 0) {
        for (std::uint64_t item = 0; item < size_; ++item) to[item] = items_ ? items_[item] : item;
        cursors_[0] = total;
    } else {
        for (std::uint64_t item = 0; item < size_; ++item) {
            const std::size_t bucket = bucket_of(item) - first;  // buckets before `first` wrap around to large numbers
            if (bucket < buckets) to[cursors_[bucket]++] = items_ ? items_[item] : item;
        }
    }
    std::uint64_t begin = 0;
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
        Bounded random(child_key(key_, first + bucket));
        std::uint64_t* const items = to + begin;
        const std::uint64_t end = cursors_[bucket];
        for (std::uint64_t left = end - begin; left > 1; --left) {
            std::swap(items[left - 1], items[random.below(static_cast<std::uint32_t>(left))]);
        }
        begin = end;
    }
}

std::size_t Permutation::take(std::uint64_t* out, std::size_t most, std::uint64_t wanted) {
    while (read_ == filled_ && next_bucket_ < counts_.size()) gather(wanted);
    const std::size_t count = std::min(most, filled_ - read_);
    std::copy_n(gathered_.data() + read_, count, out);
    read_ += count;
    return count;
}

void EpochOrder::take(std::uint64_t* out, std::size_t count, std::uint64_t wanted) {
    while (count > 0) {
        const std::size_t taken = permutation_.take(out, count, wanted);
        if (taken == 0) {
            permutation_.start(size_, child_key(key_, epoch_++));
            continue;
        }
        out += taken;
        count -= taken;
        wanted -= std::min<std::uint64_t>(wanted, taken);
    }
}

std::uint64_t Permutation::skip(std::uint64_t& token) {
    std::vector<std::uint64_t> tokens(counts_.size());
    if (bits_ == 0) return 0;
    for (std::uint64_t item = 0; item < size_; ++item) tokens[bucket_of(item)] += items_[item] & kMostTokens;
    std::uint64_t passed = 0;
    while (next_bucket_ < counts_.size() && token >= tokens[next_bucket_]) {
        token -= tokens[next_bucket_];
        passed += counts_[next_bucket_++];
    }
    return passed;
}

std::uint64_t place_of(const std::uint64_t* rows, std::size_t size, std::uint64_t key, std::uint64_t epoch,
                       std::uint64_t token) {
    Permutation permutation(rows, 1);
    permutation.start(size, child_key(key, epoch));
    std::uint64_t place = permutation.skip(token);
    for (std::uint64_t row = 0; permutation.take(&row, 1, 1) == 1; ++place) {
        const std::uint64_t tokens = row & kMostTokens;
        if (token < tokens) return place;
        token -= tokens;
    }
    return place;
}

SampleOrder::SampleOrder(std::uint64_t tokens, std::uint64_t sequence_length, std::uint64_t key, std::uint64_t epoch,
                         std::uint64_t block)
    : permutation_(nullptr, block),
      tokens_(tokens),
      sequence_length_(sequence_length),
      key_(key),
      epoch_(epoch),
      block_(block) {
    const std::uint64_t before = epoch * tokens;
    next_ = behind_ = (before + sequence_length - 1) / sequence_length;
    surplus_ = behind_ * sequence_length - before;
}

void SampleOrder::next_epoch() {
    if (surplus_ >= tokens_) {
        // No sample starts in this epoch. Skip all such epochs at once, because a dataset of a few tokens may have very
        // many of them.
        const std::uint64_t passed = surplus_ / tokens_;
        epoch_ += passed;
        surplus_ -= passed * tokens_;
    }
    const std::uint64_t samples = (tokens_ - surplus_ + sequence_length_ - 1) / sequence_length_;
    behind_ += samples;
    surplus_ = surplus_ + samples * sequence_length_ - tokens_;
    blocks_ = 0;
    ++epoch_;
}

void SampleOrder::next_block() {
    if (next_ == behind_) next_epoch();
    first_ = next_;
    next_ += std::min(block_, behind_ - next_);
    permutation_.start(next_ - first_, child_key(child_key(key_, epoch_ - 1), blocks_++));
}

void SampleOrder::take(std::uint64_t* out, std::size_t count) {
    while (count > 0) {
        const std::size_t taken = permutation_.take(out, count, 0);
        if (taken == 0) {
            next_block();
            continue;
        }
        for (std::size_t i = 0; i < taken; ++i) out[i] += first_;
        out += taken;
        count -= taken;
    }
}

}  // namespace bloomery::index
