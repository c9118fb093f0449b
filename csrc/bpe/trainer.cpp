#include "trainer.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace bloomery::bpe {
namespace {

constexpr Token END = -1;
constexpr std::int64_t BYTES = 256;
constexpr std::int64_t POLL_MERGES = 256;
constexpr std::uint32_t NOT_STORED = 0xFFFFFFFFu;

}  // namespace

Trainer::Trainer(const Settings& settings)
    : settings_(settings), pairs_(settings.min_frequency), bytes_(BYTES, 1) {
    first_.push_back(0);
}

void Trainer::add(const std::uint8_t* begin, const std::uint8_t* end, std::int64_t count) {
    if (count < 0) throw std::invalid_argument("a count is negative: " + std::to_string(count));
    if (count == 0 || end - begin < 2) return;
    const std::int64_t length = end - begin;
    constexpr std::int64_t LIMIT = std::numeric_limits<std::int64_t>::max();
    if (count > (LIMIT - total_) / (length - 1)) throw std::invalid_argument("the counts overflow 64 bits");
    if (counts_.size() >= std::numeric_limits<Word>::max()) throw std::invalid_argument("more than 2^32 - 1 pieces");
    total_ += count * (length - 1);
    for (; begin != end; ++begin) symbols_.push_back(settings_.symbol_order[*begin]);
    first_.push_back(symbols_.size());
    counts_.push_back(count);
}

std::vector<std::pair<Token, Token>> Trainer::train(const std::function<void()>& poll) {
    std::vector<std::pair<Token, Token>> merges;
    if (settings_.merges <= 0 || settings_.max_token_bytes < 2) return merges;
    index_byte_pairs();
    std::size_t best = 0;
    while (static_cast<std::int64_t>(merges.size()) < settings_.merges && pairs_.best(best)) {
        if (merges.size() % POLL_MERGES == 0) poll();
        const Pair pair = pairs_[best];
        const Token made = static_cast<Token>(bytes_.size());
        merges.emplace_back(pair.left(), pair.right());
        const auto left = static_cast<std::size_t>(pair.left()), right = static_cast<std::size_t>(pair.right());
        bytes_.push_back(bytes_[left] + bytes_[right]);
        pairs_.remove(best);
        merge(pair.left(), pair.right(), made, pairs_.words(pair), pair.words);
        pairs_.sweep();
    }
    return merges;
}

void Trainer::index_byte_pairs() {
    std::vector<std::int64_t> count(BYTES * BYTES, 0);
    std::vector<std::uint32_t> words(BYTES * BYTES, 0);
    std::vector<Word> last(BYTES * BYTES, std::numeric_limits<Word>::max());
    const auto for_each_pair = [&](auto visit) {
        for (Word word = 0; word < counts_.size(); ++word) {
            for (std::uint64_t i = first_[word]; i + 1 < first_[word + 1]; ++i) {
                visit(static_cast<std::size_t>(symbols_[i] * BYTES + symbols_[i + 1]), word);
            }
        }
    };
    for_each_pair([&](std::size_t pair, Word word) {
        count[pair] += counts_[word];
        words[pair] += last[pair] != word;
        last[pair] = word;
    });
    std::vector<std::uint32_t> index(BYTES * BYTES, NOT_STORED);
    for (std::size_t pair = 0; pair < count.size(); ++pair) {
        if (count[pair] == 0 || count[pair] < settings_.min_frequency) continue;
        const std::uint64_t key = pair_key(static_cast<Token>(pair / BYTES), static_cast<Token>(pair % BYTES));
        index[pair] = static_cast<std::uint32_t>(pairs_.add(key, count[pair], words[pair]));
    }
    for_each_pair([&](std::size_t pair, Word word) {
        if (index[pair] != NOT_STORED) pairs_.add_word(index[pair], word);
    });
}

void Trainer::merge(Token left, Token right, Token made, const Word* words, std::size_t count) {
    seen_count_.resize(bytes_.size() * 2, 0);
    seen_words_.resize(bytes_.size() * 2, 0);
    sightings_.clear();
    seen_.clear();
    for (std::size_t i = 0; i < count; ++i) {
#if defined(__GNUC__)
        constexpr std::size_t AHEAD = 8;
        if (i + 2 * AHEAD < count) __builtin_prefetch(&first_[words[i + 2 * AHEAD]]);
        if (i + AHEAD < count) __builtin_prefetch(&symbols_[first_[words[i + AHEAD]]], 1);
#endif
        merge_in_word(left, right, made, words[i]);
    }
    index_new_pairs(left, right, made);
}

void Trainer::see(Token neighbour, unsigned side, Word word) {
    const std::uint32_t key = static_cast<std::uint32_t>(neighbour) << 1 | side;
    if (seen_words_[key]++ == 0) seen_.push_back(key);
    seen_count_[key] += counts_[word];
    sightings_.push_back({key, word});
}

// Replaces each (left, right) from left to right. The left neighbour of an occurrence is taken after, the right one
// before the occurrences that follow are replaced, so that "abab" gives (made, left) and takes it back again.
void Trainer::merge_in_word(Token left, Token right, Token made, Word word) {
    const std::uint64_t begin = first_[word], end = first_[word + 1];
    std::uint64_t to = begin, from = begin;
    for (; from < end && symbols_[from] != END; ++to) {
        const bool pair = symbols_[from] == left && from + 1 < end && symbols_[from + 1] == right;
        if (!pair) {
            symbols_[to] = symbols_[from++];
            continue;
        }
        if (to > begin) see(symbols_[to - 1], 0, word);
        from += 2;
        if (from < end && symbols_[from] != END) see(symbols_[from], 1, word);
        symbols_[to] = made;
    }
    if (to < end) symbols_[to] = END;
}

void Trainer::index_new_pairs(Token left, Token right, Token made) {
    const std::int64_t minimum = std::max<std::int64_t>(settings_.min_frequency, 1);
    const std::uint32_t taken_back = static_cast<std::uint32_t>(made) << 1;
    if (seen_words_[taken_back] != 0) seen_count_[static_cast<std::uint32_t>(left) << 1 | 1] -= seen_count_[taken_back];
    for (const std::uint32_t key : seen_) {
        const auto neighbour = static_cast<Token>(key >> 1);
        const bool after = key & 1;
        std::int64_t gone = seen_count_[key];
        const std::int64_t fresh = gone;
        // (right, left) lost the pairs inside "abab" too, though no (made, left) is left of them
        if (after && neighbour == left) gone += seen_count_[taken_back];
        if (neighbour != made) pairs_.subtract(after ? pair_key(right, neighbour) : pair_key(neighbour, left), gone);
        const bool fits = bytes_[static_cast<std::size_t>(neighbour)] + bytes_.back() <= settings_.max_token_bytes;
        if (fits && fresh >= minimum) {
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
