// Dropout with AVX2. The instructions are exact on integers, and the products are single, so the bits are the same.
#include "dispatch.hpp"

#if defined(BLOOMERY_HAS_AVX2)
// These headers must be read before the pragma, so that their functions do not require AVX2.
#include <algorithm>
#include <cstdint>
#include <cstring>

#pragma GCC target("avx2")
#include "loop.hpp"

namespace bloomery::dropout::avx2 {

void drop_float(const float* x, float* out, std::size_t count, std::uint64_t first, Row row, Rule rule) {
    drop(x, out, count, first, row, rule);
}

void drop_bfloat16(const std::uint16_t* x, std::uint16_t* out, std::size_t count, std::uint64_t first, Row row,
                   Rule rule) {
    drop(x, out, count, first, row, rule);
}

}  // namespace bloomery::dropout::avx2
#endif
