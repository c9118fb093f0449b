// How many shingles two documents share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bloomery::text {

// Numbers that both sorted ranges of different numbers hold.
inline std::int64_t count_shared(const std::uint64_t* a, const std::uint64_t* a_end, const std::uint64_t* b,
                                 const std::uint64_t* b_end) {
    std::int64_t shared = 0;
    while (a != a_end && b != b_end) {
        // Without branches: which of two hashes is smaller cannot be predicted.
        const std::uint64_t one = *a, two = *b;
        shared += one == two;
        a += one <= two;
        b += two <= one;
    }
    return shared;
}

}  // namespace bloomery::text
