// 64-bit hash functions. They use only fixed constants and integer arithmetic, so hashes are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bloomery::text {

inline constexpr std::uint64_t HASH_BASE = 0x9E3779B97F4A7C15u;  // odd, so powers of it never vanish mod 2^64

// The finaliser of splitmix64 (Steele, Lea, Flood 2014), a bijection. Every output bit depends on every input bit.
inline std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

// XORs both halves of the 128-bit product (wyhash's "mum"), which mixes all bits with one multiplication.
inline std::uint64_t fold_multiply(std::uint64_t a, std::uint64_t b) {
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 Wide;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
#else
    const std::uint64_t al = a & 0xFFFFFFFFu, ah = a >> 32, bl = b & 0xFFFFFFFFu, bh = b >> 32;
    const std::uint64_t ll = al * bl, lh = al * bh, hl = ah * bl, hh = ah * bh;
    const std::uint64_t middle = (ll >> 32) + (lh & 0xFFFFFFFFu) + (hl & 0xFFFFFFFFu);
    return ((middle << 32) | (ll & 0xFFFFFFFFu)) ^ (hh + (lh >> 32) + (hl >> 32) + (middle >> 32));
#endif
}

// Hashes all windows of `length` values with a rolling polynomial modulo 2^64. If the values are small or all bits are
// needed, the caller must apply mix to the result. Two different windows collide with probability about 2^-64.
template <typename Value, typename Emit>
void for_each_window(const Value* values, std::size_t count, std::size_t length, Emit emit) {
    if (count < length) return;
    std::uint64_t oldest = 1;  // HASH_BASE to the power of length - 1
    for (std::size_t i = 1; i < length; ++i) oldest *= HASH_BASE;
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < length; ++i) hash = hash * HASH_BASE + values[i];
    emit(hash);
    for (std::size_t i = length; i < count; ++i) {
        hash = (hash - values[i - length] * oldest) * HASH_BASE + values[i];
        emit(hash);
    }
}

}  // namespace bloomery::text
