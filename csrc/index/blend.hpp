// The order of a blend, computed by an exact merge of one arithmetic sequence per dataset.
//
// Sample k of a dataset with quota q belongs at the fraction (2k + 1) / (2q) of a stage of `planned` samples (see
// bloomery/spec/blend_counts.py). The stage is cut into `planned` slots. Each dataset's positions are advanced with
// integers, as a whole slot and a remainder, like Bresenham's line algorithm, so that no position is rounded. Samples
// are placed into their slots in linear time. A slot holds about one sample. Only samples that share a slot are
// compared, by cross-multiplication.
#pragma once

#include <cstdint>
#include <vector>

namespace bloomery::index {

// Maximum number of samples of a stage. Twice this number fits in 64 bits.
constexpr std::int64_t kMostSamples = std::int64_t{1} << 61;

// Returns the number of k >= 0 with (2k + 1) / (2 quota) < slot / planned.
std::int64_t before_slot(std::int64_t quota, std::int64_t planned, std::int64_t slot);

// A dataset of a stage: its quota (0 to planned), its number in the output, and its first sample in the stage.
struct Share {
    std::int64_t quota;
    std::int32_t number;
    std::int64_t first;
};

// Writes the dataset number and the sample number of every sample in the slots [begin, end), in blend order. Ties are
// sorted by the index in `shares`. Requires planned <= kMostSamples, outputs of sum(before_slot(end) -
// before_slot(begin)) elements, and types Number (int16 or int32) and Sample (uint32 or int64) that hold every value.
template <typename Number, typename Sample>
void blend(const std::vector<Share>& shares, std::int64_t planned, std::int64_t begin, std::int64_t end,
           Number* numbers, Sample* samples);

}  // namespace bloomery::index
