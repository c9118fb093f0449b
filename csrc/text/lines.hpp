// The lines of a document as hashes, and a document without some of its lines (see _text.pyi).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytes.hpp"

namespace bloomery::text {

struct LineRule {
    std::uint64_t salt;      // part of every hash: equal lines under different salts are different
    std::size_t characters;  // shorter lines, white space at both ends apart, are never looked at
};

// Appends the hashes of the document's lines, sorted, each once; returns the hash of its content: of all its lines in
// order, short ones too, without blank ones and without white space at their ends.
std::uint64_t add_line_hashes(Bytes document, LineRule rule, std::vector<std::uint64_t>& hashes);

// Appends the document without the lines whose hash is in [first, last), which is sorted; returns how many went. A line
// goes with its line end, and the last one, where it has none, with the one before it.
std::size_t add_without_lines(Bytes document, LineRule rule, const std::uint64_t* first, const std::uint64_t* last,
                              std::vector<std::uint8_t>& text);

}  // namespace bloomery::text
