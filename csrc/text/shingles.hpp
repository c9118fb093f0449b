// Counts the shingles that two documents share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bloomery::text {

// Returns the number of values that two ranges share. Each range must be sorted and hold distinct values.
inline std::int64_t count_shared(const std::uint64_t* a, const std::uint64_t* a_end, const std::uint64_t* b,
                                 const std::uint64_t* b_end) {
    std::int64_t shared = 0;
    while (a != a_end && b != b_end) {
        // No branches, because the processor cannot predict which of two hashes is smaller.
        const std::uint64_t one = *a, two = *b;
        shared += one == two;
        a += one <= two;
        b += two <= one;
    }
    return shared;
}

}  // namespace bloomery::text
