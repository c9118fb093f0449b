// The order of a blend: K arithmetic sequences merged, exactly.
//
// Sample k of a dataset with quota q lies at (2k + 1) / (2q) of a stage laid out over `planned` samples (see
// bloomery/spec/blend_counts.py). A stage is cut into `planned` slots, and the datasets are walked slot by slot as a line
// is drawn on a raster: whole slots and a remainder, both integers, so that no place is ever rounded. Samples are dealt to
// their slots in linear time; a slot holds about one, and only what shares a slot is compared, by cross-multiplication.
#pragma once

#include <cstdint>
#include <vector>

namespace bloomery::index {

// Greatest number of samples of a stage: twice of it is a 64-bit number.
constexpr std::int64_t kMostSamples = std::int64_t{1} << 61;

// Number of k >= 0 with (2k + 1) / (2 quota) < slot / planned.
std::int64_t before_slot(std::int64_t quota, std::int64_t planned, std::int64_t slot);

// A dataset of a stage: its quota (0 to planned), the number that it goes by, and its first sample in the stage.
struct Share {
    std::int64_t quota;
    std::int32_t number;
    std::int64_t first;
};

// Writes number and sample of everything in the slots [begin, end), in order; ties by place in `shares`.
// planned <= kMostSamples; the outputs hold sum(before_slot(end) - before_slot(begin)), and Number and Sample (int16 or
// int32, uint32 or int64) every value.
template <typename Number, typename Sample>
void blend(const std::vector<Share>& shares, std::int64_t planned, std::int64_t begin, std::int64_t end,
           Number* numbers, Sample* samples);

}  // namespace bloomery::index
