#include "word_set.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>

#include "hash.hpp"
#include "words.hpp"

namespace bloomery::text {
namespace {

// Returns the key of an entry. The key of a single word is the word's hash, which saves a multiplication in most
// look-ups.
std::uint64_t key_of(const std::uint64_t* words, std::size_t count) {
    std::uint64_t hash = words[0];
    for (std::size_t i = 1; i < count; ++i) hash = mix(hash * HASH_BASE + words[i]);
    return hash == 0 ? 1 : hash;
}

}  // namespace

WordSet::WordSet(const std::vector<Bytes>& entries, bool unspaced) {
    std::size_t capacity = 16;
    while (capacity < entries.size() * 4) capacity *= 2;
    slots_.assign(capacity, EMPTY);
    mask_ = capacity - 1;
    CodePoints code_points;
    std::vector<std::uint64_t> words;
    for (const Bytes entry : entries) {
        decode_utf8(entry, code_points);
        words.clear();
        for_each_word(code_points.data(), code_points.size(), unspaced, [&](std::size_t begin, std::size_t end) {
            words.push_back(hash_word(code_points.data() + begin, code_points.data() + end));
        });
        if (words.empty() || words.size() > MAX_WORDS) {
            throw std::invalid_argument("'" + std::string(entry.begin, entry.end) + "' has " +
                                        std::to_string(words.size()) + " words: it must have 1 to " +
                                        std::to_string(MAX_WORDS));
        }
        insert(key_of(words.data(), words.size()));
        lengths_.push_back(words.size());
    }
    std::sort(lengths_.begin(), lengths_.end(), std::greater<>());
    lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());
}

std::size_t WordSet::covered(const std::vector<std::uint64_t>& words) const {
    if (lengths_.empty()) return 0;
    std::size_t found = 0, reach = 0;  // words before `reach` belong to an entry that was found earlier
    for (std::size_t i = 0; i < words.size(); ++i) {
        for (const std::size_t length : lengths_) {
            if (length <= words.size() - i && contains(key_of(words.data() + i, length))) {
                reach = std::max(reach, i + length);
                break;
            }
        }
        found += i < reach;
    }
    return found;
}

bool WordSet::contains(std::uint64_t key) const {
    std::size_t slot = key & mask_;
    while (slots_[slot] != EMPTY) {
        if (slots_[slot] == key) return true;
        slot = (slot + 1) & mask_;
    }
    return false;
}

void WordSet::insert(std::uint64_t key) {
    std::size_t slot = key & mask_;
    while (slots_[slot] != EMPTY && slots_[slot] != key) slot = (slot + 1) & mask_;
    slots_[slot] = key;
}

}  // namespace bloomery::text
