// How often each piece occurs: an open-addressing table over pieces that lie end to end in one arena.
//
// Memory of a unique piece: 16 bytes (count, place), 11 to 21 of the table, its own bytes; about 50 in all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../text/bytes.hpp"
#include "grow_array.hpp"

namespace bloomery::bpe {

// A longer piece counts as several, cut between characters: a trainer goes through a piece again and again, and no token
// gets so long that the cuts could matter.
inline constexpr std::size_t MAX_PIECE_BYTES = 4096;

class PieceCounter {
  public:
    PieceCounter() = default;

    // Counts an occurrence. Not after `sort`, unless `clear` was called. Throws std::length_error at 2^32 - 2 pieces.
    void add(const std::uint8_t* begin, const std::uint8_t* end);

    std::int64_t occurrences() const { return occurrences_; }  // of all pieces since construction, `clear` or not
    std::int64_t text_bytes() const { return text_bytes_; }    // of these occurrences
    std::int64_t cut() const { return cut_; }                  // how many were too long
    std::size_t memory_bytes() const;
    std::size_t size() const { return entries_.size(); }       // unique pieces

    // Puts the pieces in the order of their bytes, which `piece` and `count` then follow; frees the table.
    void sort();
    Bytes piece(std::size_t rank) const { return bytes_of(entries_[order_[rank].entry]); }
    std::int64_t count(std::size_t rank) const { return entries_[order_[rank].entry].count; }

    // Forgets the pieces and frees their memory.
    void clear();

  private:
    struct Entry {
        std::int64_t count;
        std::uint64_t place;  // begin in the arena << LENGTH_BITS | length
    };
    struct Ranked {
        std::uint64_t prefix;  // first eight bytes, big-endian
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
    GrowArray<std::uint64_t> slots_;  // hash << 32 | index of the entry + 1; 0: free. A power of two of them.
    GrowArray<Ranked> order_;
    std::int64_t occurrences_ = 0;
    std::int64_t text_bytes_ = 0;
    std::int64_t cut_ = 0;
};

}  // namespace bloomery::bpe
