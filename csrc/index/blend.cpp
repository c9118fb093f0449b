#include "blend.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace bloomery::index {
namespace {

using Wide = unsigned __int128;

// Slots processed at a time. Their samples fit in the processor's cache.
constexpr std::int64_t kSlots = std::int64_t{1} << 13;

// Position of a dataset's next sample: slot + remainder / (2 quota), in units of slots.
struct Walk {
    std::int64_t quota, sample, slot;
    std::uint64_t remainder;
    std::int64_t whole_step;
    std::uint64_t step;

    Walk(std::int64_t of_quota, std::int64_t planned, std::int64_t begin)
        : quota(of_quota), sample(before_slot(of_quota, planned, begin)) {
        const Wide place = (2 * static_cast<Wide>(sample) + 1) * static_cast<Wide>(planned);
        const auto width = 2 * static_cast<std::uint64_t>(quota);
        slot = static_cast<std::int64_t>(place / width);
        remainder = static_cast<std::uint64_t>(place % width);
        whole_step = planned / quota;
        step = 2 * static_cast<std::uint64_t>(planned % quota);
    }

    void advance() {
        const auto width = 2 * static_cast<std::uint64_t>(quota);
        ++sample;
        slot += whole_step;
        remainder += step;
        if (remainder >= width) {
            remainder -= width;
            ++slot;
        }
    }
};

// A sample in a slot. `rank` is the index of its dataset in the list of shares.
struct Dealt {
    std::uint64_t remainder;
    std::int64_t sample;
    std::int32_t rank;
};

// Sorts the samples that share a slot.
class InSlot {
  public:
    explicit InSlot(const std::vector<Share>& shares) : shares_(shares) {}

    void sort(Dealt* begin, Dealt* end) const {
        if (end - begin > 16) {
            std::sort(begin, end, *this);
            return;
        }
        for (Dealt* next = begin + 1; next < end; ++next) {
            const Dealt one = *next;
            Dealt* place = next;
            for (; place > begin && (*this)(one, place[-1]); --place) *place = place[-1];
            *place = one;
        }
    }

    bool operator()(const Dealt& a, const Dealt& b) const {
        const Wide left = static_cast<Wide>(a.remainder) * static_cast<Wide>(shares_[b.rank].quota);
        const Wide right = static_cast<Wide>(b.remainder) * static_cast<Wide>(shares_[a.rank].quota);
        return left != right ? left < right : a.rank < b.rank;
    }

  private:
    const std::vector<Share>& shares_;
};

}  // namespace

std::int64_t before_slot(std::int64_t quota, std::int64_t planned, std::int64_t slot) {
    const Wide ahead = 2 * static_cast<Wide>(quota) * static_cast<Wide>(slot);
    if (ahead <= static_cast<Wide>(planned)) return 0;
    const Wide width = 2 * static_cast<Wide>(planned);
    return static_cast<std::int64_t>((ahead - static_cast<Wide>(planned) + width - 1) / width);
}

template <typename Number, typename Sample>
void blend(const std::vector<Share>& shares, std::int64_t planned, std::int64_t begin, std::int64_t end,
           Number* numbers, Sample* samples) {
    std::vector<std::pair<std::int32_t, Walk>> walks;
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
        const std::int64_t quota = shares[rank].quota;
        if (quota > 0) walks.emplace_back(static_cast<std::int32_t>(rank), Walk(quota, planned, begin));
    }
    const InSlot in_slot(shares);
    std::vector<std::uint32_t> places(static_cast<std::size_t>(std::min(kSlots, end - begin)));
    std::vector<Dealt> dealt;
    for (std::int64_t first = begin; first < end; first += kSlots) {
        const std::int64_t last = std::min(first + kSlots, end);
        std::fill(places.begin(), places.end(), 0);
        for (const auto& [rank, start] : walks) {
            for (Walk walk = start; walk.slot < last; walk.advance()) ++places[walk.slot - first];
        }
        // Replace the number of samples in each slot by the index where the slot's samples begin. Placing the samples
        // below then advances this index to the slot's end.
        std::uint32_t total = 0;
        for (auto& place : places) {
            const std::uint32_t own = place;
            place = total;
            total += own;
        }
        dealt.resize(total);
        for (auto& [rank, next] : walks) {
            Walk walk = next;
            for (; walk.slot < last; walk.advance()) {
                dealt[places[walk.slot - first]++] = {walk.remainder, walk.sample, rank};
            }
            next = walk;
        }
        std::uint32_t from = 0;
        for (std::int64_t slot = 0; slot < last - first; ++slot) {
            const std::uint32_t to = places[slot];
            if (to - from > 1) in_slot.sort(dealt.data() + from, dealt.data() + to);
            from = to;
        }
        for (const Dealt& one : dealt) {
            *numbers++ = static_cast<Number>(shares[one.rank].number);
            *samples++ = static_cast<Sample>(shares[one.rank].first + one.sample);
        }
    }
}

template void blend(const std::vector<Share>&, std::int64_t, std::int64_t, std::int64_t, std::int16_t*, std::uint32_t*);
template void blend(const std::vector<Share>&, std::int64_t, std::int64_t, std::int64_t, std::int16_t*, std::int64_t*);
template void blend(const std::vector<Share>&, std::int64_t, std::int64_t, std::int64_t, std::int32_t*, std::uint32_t*);
template void blend(const std::vector<Share>&, std::int64_t, std::int64_t, std::int64_t, std::int32_t*, std::int64_t*);

}  // namespace bloomery::index
