// Philox4x32-10 (Salmon et al. 2011) for several counters at once. `bloomery/base/philox.py` is the reference.
//
// A 64-bit lane of a vector holds a 32-bit word in its low half. So one vector instruction multiplies the words of
// several blocks without rounding. The high halves of lanes are undefined, and products ignore them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace bloomery::dropout {
namespace {

#if defined(__AVX2__)
constexpr std::size_t VECTOR_BYTES = 32;
#else
constexpr std::size_t VECTOR_BYTES = 16;
#endif
constexpr std::size_t LANES = VECTOR_BYTES / sizeof(std::uint64_t);
using Lanes = std::uint64_t __attribute__((vector_size(VECTOR_BYTES)));

// Number of 16-bit random numbers in a block.
constexpr std::size_t HALVES = 8;
// Number of blocks that one call computes. Two vectors of lanes are computed at a time, so that one multiplication can
// start while the other one runs.
constexpr std::size_t BLOCKS = 8;
constexpr std::size_t CHAINS = 2;
static_assert(BLOCKS % (CHAINS * LANES) == 0);

// Return the 64-bit products of the low halves.
inline __attribute__((always_inline)) Lanes product(Lanes a, Lanes b) {
#if defined(__AVX2__)
    return reinterpret_cast<Lanes>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
    return reinterpret_cast<Lanes>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
    return (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF);
#endif
}

// Write the random numbers of the blocks first, first + 1, ... of a stream. The counter of a block is (block, stream),
// 64 bits each. A block's numbers are the low and the high half of its word 0, then those of the words 1 to 3.
inline __attribute__((always_inline)) void random_numbers(std::uint64_t key, std::uint64_t stream, std::uint64_t first,
                                                          std::uint16_t* numbers) {
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the halves of a word are stored in this order");
    const Lanes even_factor = Lanes{} + 0xD2511F53, odd_factor = Lanes{} + 0xCD9E8D57;
    for (std::size_t begin = 0; begin < BLOCKS; begin += CHAINS * LANES) {
        Lanes words[CHAINS][4];
        for (std::size_t chain = 0; chain < CHAINS; ++chain) {
            Lanes counter = Lanes{} + (first + begin + chain * LANES);
            for (std::size_t lane = 0; lane < LANES; ++lane) counter[lane] += lane;
            words[chain][0] = counter;
            words[chain][1] = counter >> 32;
            words[chain][2] = Lanes{} + stream;
            words[chain][3] = words[chain][2] >> 32;
        }
        Lanes low_key = Lanes{} + key, high_key = low_key >> 32;
        for (int round = 0; round < 10; ++round) {
            for (auto& word : words) {
                const Lanes even = product(word[0], even_factor), odd = product(word[2], odd_factor);
                word[0] = (odd >> 32) ^ word[1] ^ low_key;
                word[1] = odd;
                word[2] = (even >> 32) ^ word[3] ^ high_key;
                word[3] = even;
            }
            low_key += 0x9E3779B9;
            high_key += 0xBB67AE85;
        }
        for (std::size_t chain = 0; chain < CHAINS; ++chain) {
            const Lanes* word = words[chain];
            const Lanes one = (word[0] & 0xFFFFFFFF) | (word[1] << 32), two = (word[2] & 0xFFFFFFFF) | (word[3] << 32);
            for (std::size_t lane = 0; lane < LANES; ++lane) {
                const std::uint64_t both[2] = {one[lane], two[lane]};
                std::memcpy(numbers + (begin + chain * LANES + lane) * HALVES, both, sizeof both);
            }
        }
    }
}

}  // namespace
}  // namespace bloomery::dropout
