#include "trainer.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace bloomery::bpe {
namespace {

constexpr std::int64_t BYTES = 256;
constexpr std::int64_t POLL_MERGES = 256;
constexpr std::uint32_t NOT_STORED = 0xFFFFFFFFu;
constexpr std::int64_t STEP = 16;        // each indexing divides the minimum count by this; there are 3 to 15 indexings
constexpr std::size_t BOUNDS = 1 << 22;  // entries of the table of upper bounds; 32 MiB

}  // namespace

Trainer::Trainer(const Settings& settings)
    : settings_(settings), minimum_(std::numeric_limits<std::int64_t>::max()), bytes_(BYTES, 1) {
    settings_.min_frequency = std::max<std::int64_t>(settings.min_frequency, 1);
}

void Trainer::add(const std::uint8_t* begin, const std::uint8_t* end, std::int64_t count) {
    if (count < 0) throw std::invalid_argument("a count is negative: " + std::to_string(count));
    if (count == 0 || end - begin < 2) return;
    const std::int64_t pairs = end - begin - 1;
    constexpr std::int64_t LIMIT = std::numeric_limits<std::int64_t>::max();
    if (count > (LIMIT - total_) / pairs) throw std::invalid_argument("the counts overflow 64 bits");
    total_ += count * pairs;
    words_.add(begin, end, count, settings_.symbol_order);
}

std::vector<std::pair<Token, Token>> Trainer::train(std::int64_t merges,
                                                   const std::function<void(std::size_t)>& poll) {
    std::vector<std::pair<Token, Token>> learnt;
    while (static_cast<std::int64_t>(learnt.size()) < merges) {
        std::size_t best = 0;
        if (!pairs_.best(best)) {
            poll(learnt.size());
            if (!index_pairs()) break;
            continue;
        }
        if (learnt.size() % POLL_MERGES == 0) poll(learnt.size());
        const Pair pair = pairs_[best];
        const Token made = static_cast<Token>(bytes_.size());
        learnt.emplace_back(pair.left(), pair.right());
        bytes_.push_back(bytes_[static_cast<std::size_t>(pair.left())] + bytes_[static_cast<std::size_t>(pair.right())]);
        pairs_.remove(best);
        merge(pair.left(), pair.right(), made, pairs_.words(pair), pair.words);
        pairs_.sweep();
    }
    return learnt;
}

bool Trainer::fits(Token left, Token right) const {
    return bytes_[static_cast<std::size_t>(left)] + bytes_[static_cast<std::size_t>(right)] <= settings_.max_token_bytes;
}

// Lowers the minimum count and indexes the pairs that reach it. Returns false if the minimum is already min_frequency.
bool Trainer::index_pairs() {
    if (minimum_ == settings_.min_frequency) return false;
    const auto for_each_pair = [&](auto visit) {
        words_.for_each([&](Word word) {
            const std::int64_t count = words_.count(word);
            for (const Token* token = words_[word]; token[1] != Words::END; ++token) {
                if (fits(token[0], token[1])) visit(pair_key(token[0], token[1]), count, word);
            }
        });
    };
    pairs_.restart(minimum_);
    // The summed count of all pairs with the same hash is an upper bound of each pair's count. With these bounds, rare
    // pairs are skipped without storing their keys.
    std::vector<std::int64_t> bounds(BOUNDS, 0);
    const auto bound = [&](std::uint64_t key) -> std::int64_t& { return bounds[hash_of(key) % BOUNDS]; };
    for_each_pair([&](std::uint64_t key, std::int64_t count, Word) { bound(key) += count; });
    minimum_ = std::min(minimum_, *std::max_element(bounds.begin(), bounds.end()));
    minimum_ = std::max(minimum_ / STEP, settings_.min_frequency);
    pairs_.restart(minimum_);
    // Drop the words in which every pair is too rare or too long to be ever merged.
    words_.compact([&](Word word) {
        for (const Token* token = words_[word]; token[0] != Words::END && token[1] != Words::END; ++token) {
            if (fits(token[0], token[1]) && bound(pair_key(token[0], token[1])) >= settings_.min_frequency) return true;
        }
        return false;
    });
    for_each_pair([&](std::uint64_t key, std::int64_t count, Word) {
        if (bound(key) >= minimum_) pairs_.tally(key, count);
    });
    pairs_.settle();
    for_each_pair([&](std::uint64_t key, std::int64_t, Word word) {
        if (bound(key) < minimum_) return;
        const std::uint32_t index = pairs_.index(key);
        if (index != Pairs::NONE) pairs_.add_word(index, word);
    });
    return true;
}

void Trainer::merge(Token left, Token right, Token made, const Word* words, std::size_t count) {
    seen_count_.resize(bytes_.size() * 2, 0);
    seen_words_.resize(bytes_.size() * 2, 0);
    sightings_.clear();
    seen_.clear();
    for (std::size_t i = 0; i < count; ++i) {
        constexpr std::size_t AHEAD = 8;
        if (i + AHEAD < count) words_.prefetch(words[i + AHEAD]);
        merge_in_word(left, right, made, words[i]);
    }
    index_new_pairs(left, right, made);
}

void Trainer::see(Token neighbour, unsigned side, Word word) {
    const std::uint32_t key = static_cast<std::uint32_t>(neighbour) << 1 | side;
    if (seen_words_[key]++ == 0) seen_.push_back(key);
    seen_count_[key] += words_.count(word);
    sightings_.push_back({key, word});
}

// Replaces each pair (left, right), from left to right. At each occurrence, the left neighbour is read after earlier
// occurrences are replaced, and the right neighbour is read before later occurrences are replaced. In "abab", the first
// occurrence therefore counts (made, left), although this pair does not remain. The second occurrence counts
// (made, made), and index_new_pairs subtracts this count from (made, left).
void Trainer::merge_in_word(Token left, Token right, Token made, Word word) {
    Token* const begin = words_[word];
    Token *to = begin, *from = begin;
    for (; *from != Words::END; ++to) {
        if (*from != left || from[1] != right) {
            *to = *from++;
            continue;
        }
        if (to > begin) see(to[-1], 0, word);
        from += 2;
        if (*from != Words::END) see(*from, 1, word);
        *to = made;
    }
    for (; to < from; ++to) *to = Words::END;
}

void Trainer::index_new_pairs(Token left, Token right, Token made) {
    const std::uint32_t taken_back = static_cast<std::uint32_t>(made) << 1;
    if (seen_words_[taken_back] != 0) seen_count_[static_cast<std::uint32_t>(left) << 1 | 1] -= seen_count_[taken_back];
    for (const std::uint32_t key : seen_) {
        const auto neighbour = static_cast<Token>(key >> 1);
        const bool after = key & 1;
        std::int64_t gone = seen_count_[key];
        const std::int64_t fresh = gone;
        // The occurrences of (right, left) inside "abab" are gone too, although no (made, left) remains for them.
        if (after && neighbour == left) gone += seen_count_[taken_back];
        if (neighbour != made) pairs_.subtract(after ? pair_key(right, neighbour) : pair_key(neighbour, left), gone);
        if (fits(neighbour, made) && fresh >= minimum_) {
            const std::uint64_t pair = after ? pair_key(made, neighbour) : pair_key(neighbour, made);
            seen_words_[key] = static_cast<std::uint32_t>(pairs_.add(pair, fresh, seen_words_[key]));
        } else {
            seen_words_[key] = NOT_STORED;
        }
    }
    for (std::size_t i = 0; i < sightings_.size(); ++i) {
        const Sighting sighting = sightings_[i];
        const std::uint32_t index = seen_words_[sighting.neighbour_and_side];
        if (index != NOT_STORED) pairs_.add_word(index, sighting.word);
    }
    for (const std::uint32_t key : seen_) {
        seen_count_[key] = 0;
        seen_words_[key] = 0;
    }
}

}  // namespace bloomery::bpe
