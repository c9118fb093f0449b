// Unicode properties, script and lower case of each code point, and UTF-8 decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytes.hpp"

namespace bloomery::text {

using CodePoint = std::uint32_t;
using CodePoints = std::vector<CodePoint>;
using Properties = std::uint32_t;  // a set of Property in the low bits and the script from bit SCRIPT_SHIFT on

enum Property : Properties {
    LETTER = 1 << 0,      // L*
    MARK = 1 << 1,        // M*
    DIGIT = 1 << 2,       // Nd
    SPECIAL = 1 << 3,     // P*, S*, N*, C*, Z*, but not space, tab, newlines and the zero-width (non-)joiners
    SPACE = 1 << 4,       // white space as in Python's str.isspace
    TERMINAL = 1 << 5,    // ends a sentence
    CLOSER = 1 << 6,      // may follow a TERMINAL: closing brackets and quotation marks
    JOINER = 1 << 7,      // belongs to a word if it occurs inside the word: apostrophes, ZWJ, ZWNJ
    UNSPACED = 1 << 8,    // a letter of a script written without spaces
    BULLET = 1 << 9,      // starts a list item
    MOJIBAKE = 1 << 10,   // first character of UTF-8 read as Latin-1 or cp1252: U+00C2, U+00C3, U+00E2
    CONTINUED = 1 << 11,  // second character of UTF-8 read as Latin-1 or cp1252: U+0080..U+00BF and cp1252's characters
    WORD = LETTER | MARK | DIGIT,
};

// Returns the number of a letter's script. Number n > 0 means SCRIPT_NAMES[n - 1], and 0 means no script.
inline constexpr int SCRIPT_SHIFT = 16;
inline std::size_t script_of(Properties properties) { return properties >> SCRIPT_SHIFT; }

inline constexpr CodePoint REPLACEMENT = 0xFFFD;
inline constexpr CodePoint CODE_POINTS = 0x110000;
inline constexpr CodePoint CASED_CODE_POINTS = 0x20000;  // no letter from here on has a lower case

class Unicode {
  public:
    static const Unicode& instance();
    // `code` must be below CODE_POINTS. All results of decode_utf8 are.
    Properties properties(CodePoint code) const { return properties_[code]; }
    CodePoint lower(CodePoint code) const { return code < CASED_CODE_POINTS ? lower_[code] : code; }

  private:
    Unicode();
    std::vector<Properties> properties_;
    std::vector<CodePoint> lower_;
};

// Replaces the content of `out` by the code points of `bytes`. Each maximal malformed part becomes one U+FFFD, as in
// Python's bytes.decode("utf-8", "replace") and the WHATWG encoding standard.
void decode_utf8(Bytes bytes, CodePoints& out);

}  // namespace bloomery::text
