// Runs the blend of csrc/index without Python, for the sanitizers.
//
// Input on stdin: for each call `planned begin end datasets`, then `quota number first` of each dataset.
// Output: one line per call with `number sample` of each sample.
#include <cinttypes>
#include <cstdio>
#include <memory>

#include "index/blend.hpp"

using namespace bloomery::index;

int main() {
    std::int64_t planned = 0, begin = 0, end = 0, datasets = 0;
    while (std::scanf("%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &planned, &begin, &end, &datasets) == 4) {
        std::vector<Share> shares(static_cast<std::size_t>(datasets));
        std::int64_t total = 0;
        for (Share& share : shares) {
            if (std::scanf("%" SCNd64 " %" SCNd32 " %" SCNd64, &share.quota, &share.number, &share.first) != 3) return 1;
            total += before_slot(share.quota, planned, end) - before_slot(share.quota, planned, begin);
        }
        // The allocations have the exact size of the output, so that the sanitizer finds writes beyond their end.
        const std::unique_ptr<std::int32_t[]> numbers(new std::int32_t[static_cast<std::size_t>(total)]);
        const std::unique_ptr<std::int64_t[]> samples(new std::int64_t[static_cast<std::size_t>(total)]);
        blend(shares, planned, begin, end, numbers.get(), samples.get());
        for (std::int64_t i = 0; i < total; ++i) std::printf("%" PRId32 " %" PRId64 " ", numbers[i], samples[i]);
        std::printf("\n");
    }
    return 0;
}
