// Counts how often each piece occurs. A hash table with open addressing refers to pieces that are concatenated in one
// arena.
//
// A unique piece takes 16 bytes for its count and its place in the arena, 11 to 21 bytes in the hash table, and its own
// bytes. This is about 50 bytes in total.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../text/bytes.hpp"
#include "grow_array.hpp"

namespace bloomery::bpe {

// A longer piece is split between characters and counted as several pieces. The trainer reads each piece many times, so
// pieces must not be too long. No token gets so long that the splits matter.
inline constexpr std::size_t MAX_PIECE_BYTES = 4096;

class PieceCounter {
  public:
    PieceCounter() = default;

    // Counts one occurrence of a piece. After `sort`, call `clear` first. Throws std::length_error for more than
    // 2^32 - 2 unique pieces.
    void add(const std::uint8_t* begin, const std::uint8_t* end);

    // Totals since construction, which `clear` does not reset: occurrences of pieces, their bytes, and the number of
    // pieces that were split because they were longer than MAX_PIECE_BYTES.
    std::int64_t occurrences() const { return occurrences_; }
    std::int64_t text_bytes() const { return text_bytes_; }
    std::int64_t cut() const { return cut_; }
    std::size_t memory_bytes() const;
    std::size_t size() const { return entries_.size(); }  // number of unique pieces

    // Sorts the pieces by their bytes and frees the hash table. `rank` below is the position in this order.
    void sort();
    Bytes piece(std::size_t rank) const { return bytes_of(entries_[order_[rank].entry]); }
    std::int64_t count(std::size_t rank) const { return entries_[order_[rank].entry].count; }

    // Removes the pieces and frees their memory.
    void clear();

  private:
    struct Entry {
        std::int64_t count;
        std::uint64_t place;  // start in the arena << LENGTH_BITS | length
    };
    struct Ranked {
        std::uint64_t prefix;  // first eight bytes of the piece, big-endian
        std::uint32_t entry;
    };
    static constexpr int LENGTH_BITS = 16;
    static_assert(MAX_PIECE_BYTES < (1 << LENGTH_BITS));

    Bytes bytes_of(const Entry& entry) const {
        const std::uint8_t* const begin = arena_.begin() + (entry.place >> LENGTH_BITS);
        return {begin, begin + (entry.place & ((1 << LENGTH_BITS) - 1))};
    }
    void add_short(const std::uint8_t* begin, std::size_t length);
    void grow_table();

    GrowArray<std::uint8_t> arena_;
    GrowArray<Entry> entries_;
    GrowArray<std::uint64_t> slots_;  // hash << 32 | index of the entry + 1, or 0 if free; the size is a power of two
    GrowArray<Ranked> order_;
    std::int64_t occurrences_ = 0;
    std::int64_t text_bytes_ = 0;
    std::int64_t cut_ = 0;
};

}  // namespace bloomery::bpe
