// Where samples start, over documents laid end to end in reading order, and what a document's row holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bloomery::index {

// A document in one word: its number among all documents of the index (33 bits) and its tokens (31 bits, as the .idx
// has them).
inline constexpr int kTokenBits = 31;
inline constexpr std::uint64_t kMostTokens = (std::uint64_t{1} << kTokenBits) - 1;
inline constexpr std::uint64_t kMostDocuments = std::uint64_t{1} << (64 - kTokenBits);

inline std::uint64_t packed(std::uint64_t number, std::uint64_t tokens) { return number << kTokenBits | tokens; }

// Sample i starts at token i * sequence_length of the documents; its document is the one that holds this token.
class SampleWalk {
   public:
    // `samples`: starts 0 .. samples are wanted. `position`, `token`: of the first document that comes, in the whole
    // order; starts that lie before `token` are left out.
    SampleWalk(std::int64_t sequence_length, std::int64_t samples, std::int64_t position, std::int64_t token)
        : sequence_length_(sequence_length),
          samples_(samples),
          position_(position),
          token_(token),
          next_((token + sequence_length - 1) / sequence_length) {}

    // Appends (position, token offset) of each start in the next `count` documents.
    template <typename Number>
    void advance(const std::uint64_t* rows, std::size_t count, std::vector<Number>& starts) {
        std::int64_t at = next_ * sequence_length_;
        for (std::size_t i = 0; i < count; ++i) {
            const auto end = token_ + static_cast<std::int64_t>(rows[i] & kMostTokens);
            while (at < end && next_ <= samples_) {
                starts.push_back(static_cast<Number>(position_));
                starts.push_back(static_cast<Number>(at - token_));
                ++next_;
                at += sequence_length_;
            }
            token_ = end;
            ++position_;
        }
    }

    std::int64_t next() const { return next_; }

   private:
    std::int64_t sequence_length_;
    std::int64_t samples_;
    std::int64_t position_;
    std::int64_t token_;
    std::int64_t next_;
};

}  // namespace bloomery::index
