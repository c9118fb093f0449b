// Runs the dropout of csrc/dropout without Python, for the sanitizers.
//
// Input on stdin: for each call `key stream first count threshold`. The elements are 1, 2, 3, ... in float, and the same
// in bfloat16. Output: for each call, the bits of the results in float, then in bfloat16. The scale is 2.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>

#include "dropout/drop.hpp"

using namespace bloomery::dropout;

int main() {
    std::uint64_t key = 0, stream = 0, first = 0, count = 0, threshold = 0;
    while (std::scanf("%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &key, &stream, &first, &count,
                      &threshold) == 5) {
        // Allocations of the exact size let the sanitizer find accesses beyond the end.
        const std::unique_ptr<float[]> x(new float[count]), out(new float[count]);
        const std::unique_ptr<std::uint16_t[]> narrow(new std::uint16_t[count]);
        for (std::uint64_t i = 0; i < count; ++i) {
            x[i] = static_cast<float>(i + 1);
            std::uint32_t bits = 0;
            std::memcpy(&bits, &x[i], sizeof bits);
            narrow[i] = static_cast<std::uint16_t>(bits >> 16);
        }
        const Rule rule{static_cast<std::uint32_t>(threshold), 2.0F};
        drop_float(x.get(), out.get(), count, first, {key, stream}, rule);
        drop_bfloat16(narrow.get(), narrow.get(), count, first, {key, stream}, rule);
        for (std::uint64_t i = 0; i < count; ++i) {
            std::uint32_t bits = 0;
            std::memcpy(&bits, &out[i], sizeof bits);
            std::printf("%" PRIu32 " ", bits);
        }
        for (std::uint64_t i = 0; i < count; ++i) std::printf("%u ", static_cast<unsigned>(narrow[i]));
        std::printf("\n");
    }
}
