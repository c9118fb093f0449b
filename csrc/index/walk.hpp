// The start of each sample in documents that are laid end to end in reading order, and the layout of a document's row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bloomery::index {

// A row describes a document in one word: its number among all documents of the index (33 bits) and its number of
// tokens (31 bits, as in the .idx).
inline constexpr int kTokenBits = 31;
inline constexpr std::uint64_t kMostTokens = (std::uint64_t{1} << kTokenBits) - 1;
inline constexpr std::uint64_t kMostDocuments = std::uint64_t{1} << (64 - kTokenBits);

inline std::uint64_t packed(std::uint64_t number, std::uint64_t tokens) { return number << kTokenBits | tokens; }

// Computes sample starts. Sample i starts at token i * sequence_length, in the document that holds this token.
class SampleWalk {
   public:
    // Prepares the starts of samples 0 to `samples`. `position` and `token` are the position of the next document and
    // of its first token in the whole order. Starts before `token` are left out.
    SampleWalk(std::int64_t sequence_length, std::int64_t samples, std::int64_t position, std::int64_t token)
        : sequence_length_(sequence_length),
          samples_(samples),
          position_(position),
          token_(token),
          next_((token + sequence_length - 1) / sequence_length) {}

    // Appends the (document position, token offset) of each start in the next `count` documents.
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
