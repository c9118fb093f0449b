// Table of merges: maps a pair of tokens to its rank and its merged token. It is a flat hash table, with an additional
// direct table for pairs of bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "../text/hash.hpp"

namespace bloomery::bpe {

using Token = std::int32_t;

struct Merge {
    Token left, right, made;
};

// Rank and merged token of a pair, packed into 64 bits. Merges with lower keys come first. An empty key, which converts
// to false, means that the pair does not merge.
class MergeKey {
  public:
    MergeKey() = default;
    MergeKey(std::uint32_t rank, Token made)
        : value_(std::uint64_t{rank} << 32 | static_cast<std::uint32_t>(made)) {}
    explicit operator bool() const { return value_ != NONE; }
    bool operator<(MergeKey other) const { return value_ < other.value_; }
    std::uint32_t rank() const { return static_cast<std::uint32_t>(value_ >> 32); }
    Token made() const { return static_cast<Token>(static_cast<std::uint32_t>(value_)); }

  private:
    static constexpr std::uint64_t NONE = ~std::uint64_t{0};
    std::uint64_t value_ = NONE;
};

class MergeTable {
  public:
    // `bytes` holds the token of each byte. `merges` is in order of rank and has no negative tokens. Throws
    // std::invalid_argument if a pair occurs twice.
    MergeTable(const std::array<Token, 256>& bytes, const std::vector<Merge>& merges) : of_bytes_(1 << 16) {
        std::size_t slots = 16;
        while (slots < 2 * merges.size()) slots *= 2;
        slots_.resize(slots);
        mask_ = slots - 1;
        for (std::size_t rank = 0; rank < merges.size(); ++rank) {
            const Merge& merge = merges[rank];
            const std::uint64_t pair = joined(merge.left, merge.right);
            std::size_t at = place(pair);
            while (slots_[at].merge) {
                if (slots_[at].pair == pair) throw std::invalid_argument("a pair of tokens merges twice in `merges`");
                at = (at + 1) & mask_;
            }
            slots_[at] = {pair, MergeKey(static_cast<std::uint32_t>(rank), merge.made)};
        }
        for (std::size_t left = 0; left < 256; ++left) {
            for (std::size_t right = 0; right < 256; ++right) {
                of_bytes_[left << 8 | right] = find(bytes[left], bytes[right]);
            }
        }
    }

    MergeKey find(Token left, Token right) const {
        const std::uint64_t pair = joined(left, right);
        for (std::size_t at = place(pair);; at = (at + 1) & mask_) {
            const Slot& slot = slots_[at];
            if (slot.pair == pair || !slot.merge) return slot.merge;
        }
    }

    MergeKey of_bytes(std::uint8_t left, std::uint8_t right) const {
        return of_bytes_[std::size_t{left} << 8 | right];
    }

  private:
    struct Slot {
        std::uint64_t pair = 0;
        MergeKey merge;
    };

    static std::uint64_t joined(Token left, Token right) {
        return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
    }
    std::size_t place(std::uint64_t pair) const {
        return static_cast<std::size_t>(text::fold_multiply(pair ^ text::HASH_BASE, text::HASH_BASE)) & mask_;
    }

    std::vector<Slot> slots_;
    std::vector<MergeKey> of_bytes_;
    std::size_t mask_ = 0;
};

}  // namespace bloomery::bpe
