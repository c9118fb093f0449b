// Computes the shingles of a normalised document and their MinHash signature (Broder 1997), hashed into LSH bands.
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

// Computes shingles. The object holds scratch memory, so use one object per thread.
class Shingler {
  public:
    explicit Shingler(ShingleSize size) : size_(size) {}
    // Returns the hashes of the document's shingles, at least one, in document order and with repetitions. The
    // reference is valid until the next call.
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
    // Writes one key per band. If two documents have equal keys in a band, all rows of the band are equal.
    void band_keys(const std::vector<std::uint64_t>& shingles, std::uint64_t* keys);

  private:
    std::size_t bands_, rows_;
    std::vector<std::uint64_t> flips_, multipliers_, minima_;
};

}  // namespace bloomery::text
