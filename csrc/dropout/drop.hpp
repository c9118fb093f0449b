// Dropout whose decision on an element depends only on a key, a stream and the element's number.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bloomery::dropout {

// Key and stream of the random numbers of a row (a sample at one place of the network).
struct Row {
    std::uint64_t key;
    std::uint64_t stream;
};

// What to do with each element: it is multiplied by 0 if its 16-bit random number is below `threshold`, and by `scale`
// otherwise.
struct Rule {
    std::uint32_t threshold;
    float scale;
};

// Apply `rule` to the elements [first, first + count) of a row. `x` and `out` hold these elements only, and may be
// equal. A bfloat16 is given as its 16 bits, and is rounded to the nearest value, ties to even.
void drop_float(const float* x, float* out, std::size_t count, std::uint64_t first, Row row, Rule rule);
void drop_bfloat16(const std::uint16_t* x, std::uint16_t* out, std::size_t count, std::uint64_t first, Row row,
                   Rule rule);

}  // namespace bloomery::dropout
