// Which files of this folder are compiled for other instructions than the compiler's default.
#pragma once

#include "drop.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define BLOOMERY_HAS_AVX2

namespace bloomery::dropout::avx2 {

void drop_float(const float* x, float* out, std::size_t count, std::uint64_t first, Row row, Rule rule);
void drop_bfloat16(const std::uint16_t* x, std::uint16_t* out, std::size_t count, std::uint64_t first, Row row,
                   Rule rule);

}  // namespace bloomery::dropout::avx2
#endif
