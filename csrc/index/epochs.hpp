// Whether a document array reads each of its documents once an epoch, and documents of no other set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bloomery::index {

// Two bits a document of the index: it is one of the set's; it was read in the epoch (odd epochs set, even ones clear).
class EpochCheck {
   public:
    // `documents`: in the whole index. `unique`: in this set, at least 1.
    EpochCheck(std::uint64_t documents, std::uint64_t unique)
        : documents_(documents), unique_(unique), member_((documents + 63) / 64), seen_((documents + 63) / 64) {}

    // Goes through the next entries; the place of the first that is out of range, or that its epoch has read before or
    // not at all, within them; `count` when there is none.
    template <typename Number>
    std::size_t advance(const Number* numbers, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            const auto number = static_cast<std::uint64_t>(numbers[i]);
            if (number >= documents_) return i;
            const std::uint64_t bit = std::uint64_t{1} << (number % 64);
            std::uint64_t& member = member_[number / 64];
            std::uint64_t& seen = seen_[number / 64];
            if (epoch_ == 0) {
                if (member & bit) return i;
                member |= bit;
            } else {
                if (!(member & bit) || ((seen & bit) != 0) != (epoch_ % 2 == 0)) return i;
                seen ^= bit;
            }
            if (++read_ == unique_) {
                read_ = 0;
                ++epoch_;
            }
        }
        return count;
    }

    const std::vector<std::uint64_t>& members() const { return member_; }

   private:
    std::uint64_t documents_;
    std::uint64_t unique_;
    std::uint64_t epoch_ = 0;
    std::uint64_t read_ = 0;
    std::vector<std::uint64_t> member_;
    std::vector<std::uint64_t> seen_;
};

}  // namespace bloomery::index
