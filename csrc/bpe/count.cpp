#include "count.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "../text/hash.hpp"

namespace bloomery::bpe {
namespace {

constexpr std::size_t FIRST_SLOTS = 1024;
constexpr std::uint64_t MULTIPLIER = 0xD6E8FEB86659FD93u;  // odd, with about as many one bits as zero bits

template <typename Value>
std::uint64_t load(const std::uint8_t* at) {
    Value value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

// Hashes in the machine's byte order. This is safe because no output depends on the hash.
std::uint32_t hash(const std::uint8_t* at, std::size_t length) {
    std::uint64_t state = text::HASH_BASE ^ length;
    for (; length > 8; at += 8, length -= 8) state = text::fold_multiply(state ^ load<std::uint64_t>(at), MULTIPLIER);
    std::uint64_t rest = 0;
    if (length >= 4) {
        rest = load<std::uint32_t>(at) << 32 | load<std::uint32_t>(at + length - 4);
    } else if (length > 0) {
        rest = std::uint64_t{at[0]} << 16 | std::uint64_t{at[length / 2]} << 8 | at[length - 1];
    }
    return static_cast<std::uint32_t>(text::fold_multiply(state ^ rest, MULTIPLIER) >> 16);
}

std::uint64_t prefix_of(Bytes piece) {
    std::uint64_t prefix = 0;
    for (std::size_t i = 0; i < 8; ++i) prefix = prefix << 8 | (i < piece.size() ? piece.begin[i] : 0u);
    return prefix;
}

bool is_less(Bytes left, Bytes right) {
    const int compared = std::memcmp(left.begin, right.begin, std::min(left.size(), right.size()));
    return compared != 0 ? compared < 0 : left.size() < right.size();
}

}  // namespace

void PieceCounter::add(const std::uint8_t* begin, const std::uint8_t* end) {
    if (static_cast<std::size_t>(end - begin) > MAX_PIECE_BYTES) ++cut_;
    while (static_cast<std::size_t>(end - begin) > MAX_PIECE_BYTES) {
        std::size_t length = MAX_PIECE_BYTES;
        while (length > MAX_PIECE_BYTES - 3 && (begin[length] & 0xC0) == 0x80) --length;
        add_short(begin, length);
        begin += length;
    }
    add_short(begin, static_cast<std::size_t>(end - begin));
}

void PieceCounter::add_short(const std::uint8_t* begin, std::size_t length) {
    ++occurrences_;
    text_bytes_ += static_cast<std::int64_t>(length);
    if (entries_.size() * 4 >= slots_.size() * 3) grow_table();
    const std::uint64_t wanted = hash(begin, length);
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t slot = wanted & mask;; slot = (slot + 1) & mask) {
        const std::uint64_t found = slots_[slot];
        if (found == 0) {
            if (entries_.size() >= std::numeric_limits<std::uint32_t>::max() - 1) {
                throw std::length_error("a counter holds at most 2^32 - 2 unique pieces");
            }
            entries_.push_back({1, std::uint64_t{arena_.size()} << LENGTH_BITS | length});
            arena_.append(begin, length);
            slots_[slot] = wanted << 32 | entries_.size();
            return;
        }
        if (found >> 32 != wanted) continue;
        Entry& entry = entries_[(found & 0xFFFFFFFFu) - 1];
        const Bytes piece = bytes_of(entry);
        if (piece.size() == length && std::memcmp(piece.begin, begin, length) == 0) {
            ++entry.count;
            return;
        }
    }
}

void PieceCounter::grow_table() {
    GrowArray<std::uint64_t> grown;
    grown.resize(std::max(FIRST_SLOTS, slots_.size() * 2));
    std::fill(grown.begin(), grown.end(), 0);
    const std::size_t mask = grown.size() - 1;
    for (const std::uint64_t entry : slots_) {
        if (entry == 0) continue;
        std::size_t slot = (entry >> 32) & mask;
        while (grown[slot] != 0) slot = (slot + 1) & mask;
        grown[slot] = entry;
    }
    slots_.swap(grown);
}

void PieceCounter::sort() {
    GrowArray<std::uint64_t>().swap(slots_);
    order_.resize(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        order_[i] = {prefix_of(bytes_of(entries_[i])), static_cast<std::uint32_t>(i)};
    }
    std::sort(order_.begin(), order_.end(), [this](const Ranked& left, const Ranked& right) {
        if (left.prefix != right.prefix) return left.prefix < right.prefix;
        return is_less(bytes_of(entries_[left.entry]), bytes_of(entries_[right.entry]));
    });
}

std::size_t PieceCounter::memory_bytes() const {
    return arena_.size() + entries_.size() * sizeof(Entry) + slots_.size() * sizeof(std::uint64_t);
}

void PieceCounter::clear() {
    GrowArray<std::uint8_t>().swap(arena_);
    GrowArray<Entry>().swap(entries_);
    GrowArray<std::uint64_t>().swap(slots_);
    GrowArray<Ranked>().swap(order_);
}

}  // namespace bloomery::bpe
