#include "minhash.hpp"

#include <algorithm>

#include "hash.hpp"
#include "words.hpp"

namespace bloomery::text {

std::vector<std::uint64_t>& Shingler::shingles(Bytes document, bool unspaced) {
    const Unicode& unicode = Unicode::instance();
    decode_utf8(document, code_points_);
    units_.clear();
    for_each_word(code_points_.data(), code_points_.size(), unspaced, [&](std::size_t begin, std::size_t end) {
        const CodePoint* word = code_points_.data() + begin;
        if (!unspaced) {
            units_.push_back(hash_word(word, code_points_.data() + end));
            return;
        }
        for (; begin < end; ++begin, ++word) {
            if (!(unicode.properties(*word) & JOINER)) units_.push_back(mix(unicode.lower(*word) + 1));
        }
    });
    if (units_.empty()) {
        // If a document has no word, use all its characters. Otherwise all documents of only punctuation would be
        // duplicates.
        for (const CodePoint code : code_points_) units_.push_back(~mix(code + 1));
    }
    const std::size_t length = std::min(unspaced ? size_.characters : size_.words, units_.size());
    const std::uint64_t salt = mix(length + 1);
    shingles_.clear();
    if (length == 0) {
        shingles_.push_back(salt);
        return shingles_;
    }
    for_each_window(units_.data(), units_.size(), length,
                    [&](std::uint64_t hash) { shingles_.push_back(mix(hash ^ salt)); });
    return shingles_;
}

MinHasher::MinHasher(std::size_t bands, std::size_t rows, std::uint64_t seed)
    : bands_(bands), rows_(rows), flips_(bands * rows), multipliers_(bands * rows), minima_(bands * rows) {
    std::uint64_t state = seed;
    const auto draw = [&state] { return mix(state += HASH_BASE); };  // splitmix64
    for (std::size_t i = 0; i < minima_.size(); ++i) {
        flips_[i] = draw();
        multipliers_[i] = draw() | 1;
    }
}

void MinHasher::band_keys(const std::vector<std::uint64_t>& shingles, std::uint64_t* keys) {
    std::fill(minima_.begin(), minima_.end(), ~std::uint64_t{0});
    const std::size_t permutations = minima_.size();
    const std::uint64_t* const flips = flips_.data();
    const std::uint64_t* const multipliers = multipliers_.data();
    std::uint64_t* const minima = minima_.data();
    for (const std::uint64_t shingle : shingles) {
        for (std::size_t i = 0; i < permutations; ++i) {
            const std::uint64_t hash = fold_multiply(shingle ^ flips[i], multipliers[i]);
            minima[i] = hash < minima[i] ? hash : minima[i];
        }
    }
    for (std::size_t band = 0; band < bands_; ++band) {
        std::uint64_t key = 0;
        for (std::size_t row = 0; row < rows_; ++row) key = mix(key + HASH_BASE + minima[band * rows_ + row]);
        keys[band] = key;
    }
}

}  // namespace bloomery::text
