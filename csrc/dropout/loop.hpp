// The loop over the elements of a row. Each file that includes it compiles it for other instructions.
#pragma once

#include <algorithm>
#include <cstring>

#include "drop.hpp"
#include "philox.hpp"

namespace bloomery::dropout {
namespace {

// Number of elements whose random numbers are computed together. Element e uses number e % HALVES of block e / HALVES.
constexpr std::size_t GROUP = BLOCKS * HALVES;

inline __attribute__((always_inline)) float times(float value, float factor) { return value * factor; }

inline __attribute__((always_inline)) std::uint16_t times(std::uint16_t value, float factor) {
    const std::uint32_t wide = std::uint32_t{value} << 16;
    float number;
    std::memcpy(&number, &wide, sizeof number);
    number *= factor;
    std::uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : rounded);
}

template <typename Number>
inline __attribute__((always_inline)) void drop(const Number* x, Number* out, std::size_t count, std::uint64_t first,
                                                Row row, Rule rule) {
    std::uint16_t numbers[GROUP];
    const auto threshold = static_cast<std::uint16_t>(rule.threshold);
    std::uint64_t group = first / GROUP;
    std::size_t skipped = first % GROUP;
    while (count > 0) {
        random_numbers(row.key, row.stream, group++ * BLOCKS, numbers);
        if (skipped == 0 && count >= GROUP) {
            for (std::size_t i = 0; i < GROUP; ++i) out[i] = times(x[i], numbers[i] < threshold ? 0.0F : rule.scale);
            x += GROUP, out += GROUP, count -= GROUP;
            continue;
        }
        const std::size_t size = std::min(GROUP - skipped, count);
        for (std::size_t i = 0; i < size; ++i) {
            out[i] = times(x[i], numbers[skipped + i] < threshold ? 0.0F : rule.scale);
        }
        x += size, out += size, count -= size;
        skipped = 0;
    }
}

}  // namespace
}  // namespace bloomery::dropout
