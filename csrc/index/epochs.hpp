// Checks that a document array reads each of its documents once per epoch and reads no other documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bloomery::index {

// Holds two bits per document of the index. The first bit marks the documents of the array. The second bit marks the
// documents read in the current epoch: odd epochs set it and even epochs clear it.
class EpochCheck {
   public:
    // `documents` is the number of documents in the whole index, `unique` the number in this array, at least 1.
    EpochCheck(std::uint64_t documents, std::uint64_t unique)
        : documents_(documents), unique_(unique), member_((documents + 63) / 64), seen_((documents + 63) / 64) {}

    // Checks the next `count` entries. Returns the index in `numbers` of the first wrong entry, or `count` if there is
    // none. An entry is wrong if it is out of range, if its epoch has already read the document, or if the first epoch
    // did not read the document.
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
