// Hashes the lines of a document and removes lines from a document (see _text.pyi).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytes.hpp"

namespace bloomery::text {

struct LineRule {
    std::uint64_t salt;      // part of every hash, so equal lines with different salts have different hashes
    std::size_t characters;  // lines with fewer characters, without leading and trailing white space, are ignored
};

// Appends the sorted, distinct hashes of the document's lines to `hashes`. Returns a hash of the document's content.
// The hash covers all lines in order, also short ones. Blank lines and white space at the ends of lines do not count.
std::uint64_t add_line_hashes(Bytes document, LineRule rule, std::vector<std::uint64_t>& hashes);

// Appends the document without the lines whose hash is in the sorted range [first, last) and returns the number of
// removed lines. A line is removed with its line ending. If the removed last line has none, the line ending before it
// is removed.
std::size_t add_without_lines(Bytes document, LineRule rule, const std::uint64_t* first, const std::uint64_t* last,
                              std::vector<std::uint8_t>& text);

}  // namespace bloomery::text
