// Runs both passes of csrc/lamb without Python, for the sanitizers.
//
// Input on stdin: for each call `threads elements segments`, then the first element and the number of elements of each
// segment. Output: for each call, the bits of the sums and of the weights afterwards.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "lamb/lamb.hpp"

using namespace bloomery::lamb;

int main() {
    unsigned threads = 0;
    std::size_t elements = 0, count = 0;
    while (std::scanf("%u %zu %zu", &threads, &elements, &count) == 3) {
        std::vector<Segment> segments(count);
        for (auto& segment : segments) {
            if (std::scanf("%zu %zu", &segment.first, &segment.count) != 2) return 1;
        }
        // Allocations of the exact size let the sanitizer find accesses beyond the end.
        const std::unique_ptr<float[]> weights(new float[elements]), gradient(new float[elements]);
        const std::unique_ptr<float[]> mean(new float[elements]()), square(new float[elements]());
        for (std::size_t i = 0; i < elements; ++i) {
            weights[i] = static_cast<float>(i % 97) / 97.0F - 0.5F;
            gradient[i] = static_cast<float>(i % 89) / 89.0F - 0.25F;
        }
        const State state{weights.get(), gradient.get(), mean.get(), square.get()};
        const Constants constants{0.5F, 0.75F, 0.5F, 0.25F, 2.0F, 2.0F, 0.125F, 0.25F};
        const std::vector<float> rates(count, 0.5F);
        for (const double sum : update_moments(state, segments, constants, threads)) {
            std::uint64_t bits = 0;
            std::memcpy(&bits, &sum, sizeof bits);
            std::printf("%" PRIu64 " ", bits);
        }
        update_weights(weights.get(), gradient.get(), segments, rates.data(), threads);
        for (std::size_t i = 0; i < elements; ++i) {
            std::uint32_t bits = 0;
            std::memcpy(&bits, &weights[i], sizeof bits);
            std::printf("%" PRIu32 " ", bits);
        }
        std::printf("\n");
    }
}
