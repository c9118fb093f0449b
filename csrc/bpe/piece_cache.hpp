// Cache of the tokens of recent pieces. Text repeats its words, so nearly every piece has been merged before. The cache
// has a fixed size. When the slots or the arena are full, the whole cache is emptied. Frequent pieces are soon added
// again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "../text/hash.hpp"
#include "merge_table.hpp"

namespace bloomery::bpe {

class PieceCache {
  public:
    static constexpr std::size_t LONGEST = 128;  // bytes; longer pieces are rarely repeated

    struct Tokens {
        const Token* begin = nullptr;
        std::size_t count = 0;  // 0 if the piece is not in the cache
    };

    PieceCache() : slots_(new Slot[SLOTS]()), arena_(new std::uint32_t[ARENA]) {}

    // `find` and `insert` take pieces of 1 to LONGEST bytes. The result of `find` is valid until the next `insert`.
    Tokens find(const std::uint8_t* piece, std::size_t length) {
        key_ = key_of(piece, length);
        for (at_ = place(key_);; at_ = (at_ + 1) & (SLOTS - 1)) {
            const Slot& slot = slots_[at_];
            if (slot.count == 0) return {};
            if (slot.key.low != key_.low || slot.key.high != key_.high) continue;
            if (length <= INLINE_BYTES) return {slot.count <= INLINE_TOKENS ? slot.tokens : tokens_at(slot.at), slot.count};
            if (std::memcmp(&arena_[slot.at], piece, length) == 0) return {tokens_at(slot.at + words(length)), slot.count};
        }
    }

    // Adds a piece. Call this only directly after a `find` of the same piece that found nothing. The number of tokens,
    // `count`, must be at most `length`.
    void insert(const std::uint8_t* piece, std::size_t length, const Token* tokens, std::size_t count) {
        const bool whole = length > INLINE_BYTES;
        const std::size_t needed = (whole ? words(length) : 0) + (whole || count > INLINE_TOKENS ? count : 0);
        if (used_ == MOST_USED || ARENA - end_ < needed) {
            std::memset(static_cast<void*>(slots_.get()), 0, SLOTS * sizeof(Slot));
            used_ = end_ = 0;
            at_ = place(key_);
        }
        ++used_;
        Slot& slot = slots_[at_];
        slot.key = key_;
        slot.count = static_cast<std::uint32_t>(count);
        if (needed == 0) {
            std::memcpy(slot.tokens, tokens, count * sizeof(Token));
            return;
        }
        slot.at = static_cast<std::uint32_t>(end_);
        if (whole) {
            std::memcpy(&arena_[end_], piece, length);
            end_ += words(length);
        }
        std::memcpy(&arena_[end_], tokens, count * sizeof(Token));
        end_ += count;
    }

  private:
    static constexpr std::size_t SLOTS = std::size_t{1} << 19;  // 16 MiB
    static constexpr std::size_t MOST_USED = SLOTS / 2;
#ifdef BLOOMERY_CACHE_WORDS
    static constexpr std::size_t ARENA = BLOOMERY_CACHE_WORDS;  // a test fills a small cache
#else
    static constexpr std::size_t ARENA = std::size_t{1} << 22;  // words of 4 bytes; 16 MiB
#endif
    static constexpr std::size_t INLINE_BYTES = 15, INLINE_TOKENS = 3;

    // The key of a short piece (up to INLINE_BYTES) is the piece itself, with its length in the last byte. The key of a
    // longer piece is a hash, so its bytes are compared as well.
    struct Key {
        std::uint64_t low, high;
    };
    struct Slot {
        Key key;
        std::uint32_t count;
        union {
            Token tokens[INLINE_TOKENS];
            std::uint32_t at;
        };
    };
    static_assert(sizeof(Slot) == 32, "two slots a cache line");

    static std::size_t words(std::size_t bytes) { return (bytes + 3) / 4; }
    const Token* tokens_at(std::size_t at) const { return reinterpret_cast<const Token*>(&arena_[at]); }
    static std::size_t place(const Key& key) {
        return static_cast<std::size_t>(text::fold_multiply(key.low ^ text::HASH_BASE, key.high ^ ~text::HASH_BASE)) &
               (SLOTS - 1);
    }

    template <typename Word>
    static std::uint64_t load(const std::uint8_t* from) {
        Word word;
        std::memcpy(&word, from, sizeof word);
        return word;
    }

    static Key key_of(const std::uint8_t* piece, std::size_t length) {
        const std::uint64_t tag = std::uint64_t{length} << 56;
        if (length > INLINE_BYTES) return {hash_of(piece, length), tag};
        if (length >= 8) {
            // Load the last eight bytes and shift out those that are also among the first eight. This never reads
            // beyond the piece.
            const std::uint64_t last = length == 8 ? 0 : load<std::uint64_t>(piece + length - 8) >> (8 * (16 - length));
            return {load<std::uint64_t>(piece), last | tag};
        }
        if (length >= 4) {
            return {load<std::uint32_t>(piece) | load<std::uint32_t>(piece + length - 4) << (8 * (length - 4)), tag};
        }
        const std::uint64_t low = piece[0] | std::uint64_t{piece[length / 2]} << 8 | std::uint64_t{piece[length - 1]} << 16;
        return {low, tag};
    }

    static std::uint64_t hash_of(const std::uint8_t* piece, std::size_t length) {
        std::uint64_t state = length;
        for (std::size_t i = 0; i + 8 < length; i += 8) {
            state = text::fold_multiply(state ^ load<std::uint64_t>(piece + i), text::HASH_BASE);
        }
        return text::fold_multiply(state ^ load<std::uint64_t>(piece + length - 8), text::HASH_BASE);
    }

    std::unique_ptr<Slot[]> slots_;
    std::unique_ptr<std::uint32_t[]> arena_;
    std::size_t used_ = 0, end_ = 0, at_ = 0;
    Key key_{};
};

}  // namespace bloomery::bpe
