#include "drop.hpp"

#include "dispatch.hpp"
#include "loop.hpp"

namespace bloomery::dropout {

#if defined(BLOOMERY_HAS_AVX2)
static const bool has_avx2 = __builtin_cpu_supports("avx2");
#endif

void drop_float(const float* x, float* out, std::size_t count, std::uint64_t first, Row row, Rule rule) {
#if defined(BLOOMERY_HAS_AVX2)
    if (has_avx2) return avx2::drop_float(x, out, count, first, row, rule);
#endif
    drop(x, out, count, first, row, rule);
}

void drop_bfloat16(const std::uint16_t* x, std::uint16_t* out, std::size_t count, std::uint64_t first, Row row,
                   Rule rule) {
#if defined(BLOOMERY_HAS_AVX2)
    if (has_avx2) return avx2::drop_bfloat16(x, out, count, first, row, rule);
#endif
    drop(x, out, count, first, row, rule);
}

}  // namespace bloomery::dropout
