// Runs the document groups, orders, sample starts and checks of csrc/index without Python, for the sanitizers.
//
// Input on stdin: for each call `documents key epoch band count sequence_length samples`, then each document's tokens.
// Output: five lines per call: the rows of all groups, the first `count` rows in reading order, the starts of samples
// in these rows, the first `count` samples in reading order, and the result of EpochCheck for these rows.
#include <cinttypes>
#include <cstdio>
#include <memory>

#include "index/deal.hpp"
#include "index/epochs.hpp"
#include "index/order.hpp"
#include "index/walk.hpp"

using namespace bloomery::index;

namespace {

template <typename Values>
void show(const Values& values) {
    for (const auto value : values) std::printf("%" PRIu64 " ", static_cast<std::uint64_t>(value));
    std::printf("\n");
}

// Takes items in pieces of different sizes. Each piece is in an allocation of its exact size, so that the sanitizer
// finds writes beyond its end.
template <typename Take>
std::vector<std::uint64_t> taken(std::uint64_t count, Take take) {
    std::vector<std::uint64_t> all;
    for (std::uint64_t piece = 1; count > 0; piece = 3 * piece + 1) {
        const std::uint64_t size = piece < count ? piece : count;
        const std::unique_ptr<std::uint64_t[]> out(new std::uint64_t[size]);
        take(out.get(), size, count);
        all.insert(all.end(), out.get(), out.get() + size);
        count -= size;
    }
    return all;
}

}  // namespace

int main() {
    std::uint64_t documents = 0, key = 0, epoch = 0, band = 0, count = 0, length = 0, samples = 0;
    while (std::scanf("%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &documents,
                      &key, &epoch, &band, &count, &length, &samples) == 7) {
        std::vector<std::int32_t> lengths(documents), codes(documents);
        std::vector<std::uint64_t> keys(documents);
        std::uint64_t tokens = 0;
        for (std::size_t i = 0; i < documents; ++i) {
            if (std::scanf("%" SCNd32, &lengths[i]) != 1) return 1;
            tokens += static_cast<std::uint64_t>(lengths[i]);
            codes[i] = static_cast<std::int32_t>(i % 2);
            keys[i] = i;
        }
        const std::int32_t pairs[4] = {0, 1, 2, 3};
        Deal deal;
        deal.add(0, lengths.data(), documents,
                 {codes.data(), codes.data(), keys.data(), documents / 3, false, pairs, 2, 2});
        std::vector<std::uint64_t> rows;
        for (std::size_t group = 0; group < deal.groups().size(); ++group) {
            std::vector<std::uint64_t> own(deal.groups()[group].documents);
            deal.take(group, own.data());
            rows.insert(rows.end(), own.begin(), own.end());
        }
        show(rows);
        EpochOrder order(rows.data(), rows.size(), key, epoch, band);
        const auto ordered = taken(count, [&](auto* out, auto size, auto left) { order.take(out, size, left); });
        show(ordered);
        SampleWalk walk(static_cast<std::int64_t>(length), static_cast<std::int64_t>(samples), 0, 0);
        std::vector<std::uint32_t> starts;
        for (const std::uint64_t row : ordered) walk.advance(&row, 1, starts);
        show(starts);
        SampleOrder sample_order(tokens, length, key, epoch, band);
        show(taken(count, [&](auto* out, auto size, auto) { sample_order.take(out, size); }));
        for (std::uint64_t token = 0; token < tokens; token += tokens / 3 + 1) {
            const std::uint64_t place = place_of(rows.data(), rows.size(), key, epoch, token);
            if (place >= rows.size()) return 1;
        }
        std::vector<std::uint32_t> numbers;
        for (const std::uint64_t row : ordered) numbers.push_back(static_cast<std::uint32_t>(row >> kTokenBits));
        EpochCheck check(documents, documents);
        std::printf("%zu\n", check.advance(numbers.data(), numbers.size()));
    }
    return 0;
}
