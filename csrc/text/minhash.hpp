// Shingles of a normalised document, and their MinHash signature (Broder 1997) folded into LSH bands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "unicode.hpp"

namespace bloomery::text {

struct ShingleSize {
    std::size_t words;       // n of the word n-grams
    std::size_t characters;  // n of the character n-grams of unspaced documents
};

// Holds the scratch memory; use one object a thread.
class Shingler {
  public:
    explicit Shingler(ShingleSize size) : size_(size) {}
    // Hashes of the document's shingles, never none, in order of appearance, repeated ones included. The reference is
    // valid until the next call.
    std::vector<std::uint64_t>& shingles(Bytes document, bool unspaced);

  private:
    ShingleSize size_;
    CodePoints code_points_;
    std::vector<std::uint64_t> units_;  // hash of each word, or of each character
    std::vector<std::uint64_t> shingles_;
};

class MinHasher {
  public:
    MinHasher(std::size_t bands, std::size_t rows, std::uint64_t seed);
    // Writes one key a band: documents whose keys agree in a band agree in all of its rows.
    void band_keys(const std::vector<std::uint64_t>& shingles, std::uint64_t* keys);

  private:
    std::size_t bands_, rows_;
    std::vector<std::uint64_t> flips_, multipliers_, minima_;
};

}  // namespace bloomery::text
