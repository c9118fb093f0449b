#include "pairs.hpp"

#include <algorithm>
#include <stdexcept>

namespace bloomery::bpe {
namespace {

constexpr std::size_t SMALL_TABLE = 1 << 16;
constexpr std::size_t SWEEP_FLOOR = 1 << 12;  // a sweep needs more dead pairs, or more words of dead pairs

}  // namespace

void Pairs::restart(std::int64_t minimum) {
    minimum_ = std::max<std::int64_t>(minimum, 1);
    pairs_.clear();
    arena_.clear();
    queue_.clear();
    pairs_.shrink();
    arena_.shrink();
    queue_.shrink();
    dead_pairs_ = dead_words_ = 0;
    rebuild_table(SMALL_TABLE);
}

std::size_t Pairs::find(std::uint64_t key) const {
    std::size_t slot = hash_of(key) & mask_;
    while (table_[slot] != NONE && pairs_[table_[slot]].key != key) slot = (slot + 1) & mask_;
    return slot;
}

void Pairs::rebuild_table(std::size_t capacity) {
    table_.resize(capacity);
    table_.shrink();
    std::fill(table_.begin(), table_.end(), NONE);
    mask_ = capacity - 1;
    for (std::size_t i = 0; i < pairs_.size(); ++i) table_[find(pairs_[i].key)] = static_cast<std::uint32_t>(i);
}

void Pairs::rebuild_queue() {
    queue_.clear();
    for (std::size_t i = 0; i < pairs_.size(); ++i) queue_.push_back({pairs_[i].count, pairs_[i].key});
    std::make_heap(queue_.begin(), queue_.end());
}

std::uint32_t& Pairs::slot_for_new(std::uint64_t key) {
    if (pairs_.size() >= NONE) throw std::length_error("the pieces have 2^32 or more different pairs of tokens");
    if (pairs_.size() * 2 >= table_.size()) rebuild_table(table_.size() * 2);
    return table_[find(key)];
}

void Pairs::tally(std::uint64_t key, std::int64_t count) {
    std::uint32_t found = index(key);
    if (found == NONE) {
        found = slot_for_new(key) = static_cast<std::uint32_t>(pairs_.size());
        pairs_.push_back({key, 0, 0, 0});
    }
    pairs_[found].count += count;
    ++pairs_[found].words;
}

void Pairs::settle() {
    std::size_t kept = 0, used = 0;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
        const Pair pair = pairs_[i];
        if (pair.count < minimum_) continue;
        pairs_[kept++] = {pair.key, pair.count, used, 0};
        used += pair.words;
    }
    pairs_.resize(kept);
    pairs_.shrink();
    arena_.resize(used);
    std::size_t capacity = SMALL_TABLE;
    while (capacity <= kept * 2) capacity *= 2;
    rebuild_table(capacity);
    rebuild_queue();
}

std::size_t Pairs::add(std::uint64_t key, std::int64_t count, std::uint32_t words) {
    const std::size_t index = pairs_.size();
    slot_for_new(key) = static_cast<std::uint32_t>(index);
    pairs_.push_back({key, count, arena_.size(), 0});
    arena_.resize(arena_.size() + words);
    queue_.push_back({count, key});
    std::push_heap(queue_.begin(), queue_.end());
    return index;
}

void Pairs::add_word(std::size_t index, Word word) {
    Pair& pair = pairs_[index];
    Word* const slice = arena_.begin() + pair.first_word;
    if (pair.words == 0 || slice[pair.words - 1] != word) slice[pair.words++] = word;
}

void Pairs::kill(Pair& pair) {
    pair.count = 0;
    ++dead_pairs_;
    dead_words_ += pair.words;
}

void Pairs::subtract(std::uint64_t key, std::int64_t count) {
    const std::uint32_t index = table_[find(key)];
    if (index == NONE || pairs_[index].count == 0) return;
    Pair& pair = pairs_[index];
    pair.count -= count;
    if (pair.count < minimum_) kill(pair);
}

bool Pairs::best(std::size_t& index) {
    while (queue_.size() > 0) {
        const Candidate candidate = queue_[0];
        std::pop_heap(queue_.begin(), queue_.end());
        queue_.pop_back();
        const std::uint32_t found = table_[find(candidate.key)];
        if (found == NONE || pairs_[found].count == 0) continue;
        if (pairs_[found].count == candidate.count) {
            index = found;
            return true;
        }
        queue_.push_back({pairs_[found].count, candidate.key});
        std::push_heap(queue_.begin(), queue_.end());
    }
    return false;
}

void Pairs::remove(std::size_t index) {
    if (pairs_[index].count != 0) kill(pairs_[index]);
}

void Pairs::sweep() {
    const bool many_pairs = dead_pairs_ > SWEEP_FLOOR && dead_pairs_ * 2 > pairs_.size();
    const bool many_words = dead_words_ > SWEEP_FLOOR && dead_words_ * 4 > arena_.size();
    if (!many_pairs && !many_words) return;
    std::size_t kept = 0, used = 0;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
        Pair pair = pairs_[i];
        if (pair.count == 0) continue;
        std::copy_n(arena_.begin() + pair.first_word, pair.words, arena_.begin() + used);
        pair.first_word = used;
        used += pair.words;
        pairs_[kept++] = pair;
    }
    pairs_.resize(kept);
    arena_.resize(used);
    rebuild_table(table_.size());
    rebuild_queue();
    dead_pairs_ = dead_words_ = 0;
}

}  // namespace bloomery::bpe
