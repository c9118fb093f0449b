#include "deal.hpp"

#include <algorithm>
#include <stdexcept>

#include "walk.hpp"

namespace bloomery::index {
namespace {

constexpr std::uint64_t kBlock = 1u << 17;  // words per block (1 MiB); pages that are never written use no memory

}  // namespace

void Deal::add(std::uint64_t first, const std::int32_t* lengths, std::size_t count, const Keys& keys) {
    if (count > kMostDocuments || first > kMostDocuments - count) {
        throw std::invalid_argument("an index cannot hold more than 2^33 documents");
    }
    for (std::size_t i = 0; i < count; ++i) {
        const auto language = static_cast<std::size_t>(keys.languages[i]);
        const auto source = static_cast<std::size_t>(keys.sources[i]);
        if (language >= keys.language_count || source >= keys.source_count || lengths[i] < 0) {
            throw std::invalid_argument("the language, source or length of a document is out of range");
        }
        const bool held_out = keys.all_held_out || keys.split_keys[i] < keys.held_out_below;
        const std::int32_t pair = keys.pairs[language * keys.source_count + source];
        if (pair < 0) throw std::invalid_argument("the pair of language and source of a document has no number");
        const std::size_t number = 2 * static_cast<std::size_t>(pair) + (held_out ? 1 : 0);
        if (number >= groups_.size()) groups_.resize(number + 1);
        Group& group = groups_[number];
        const auto tokens = static_cast<std::uint64_t>(lengths[i]);
        if (group.documents % kBlock == 0) group.blocks.emplace_back(new std::uint64_t[kBlock]);
        group.blocks.back()[group.documents % kBlock] = packed(first + i, tokens);
        ++group.documents;
        group.tokens += tokens;
        group.longest = std::max(group.longest, tokens);
    }
}

void Deal::take(std::size_t number, std::uint64_t* out) {
    Group& group = groups_.at(number);
    std::uint64_t left = group.documents;
    if (group.blocks.empty() && left > 0) throw std::invalid_argument("the group was taken before");
    for (auto& block : group.blocks) {
        const std::uint64_t count = std::min(left, kBlock);
        out = std::copy_n(block.get(), count, out);
        left -= count;
        block.reset();
    }
    group.blocks.clear();
}

}  // namespace bloomery::index
