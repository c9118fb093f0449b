// What a character is: one set of properties and a script a code point, its lower case, and UTF-8 decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytes.hpp"

namespace bloomery::text {

using CodePoint = std::uint32_t;
using CodePoints = std::vector<CodePoint>;
using Properties = std::uint32_t;  // a set of Property, and the script above it

enum Property : Properties {
    LETTER = 1 << 0,      // L*
    MARK = 1 << 1,        // M*
    DIGIT = 1 << 2,       // Nd
    SPECIAL = 1 << 3,     // P*, S*, N*, C*, Z*, but not space, tab, newlines and the zero-width (non-)joiners
    SPACE = 1 << 4,       // what Python's str.isspace says
    TERMINAL = 1 << 5,    // ends a sentence
    CLOSER = 1 << 6,      // may follow what ends a sentence: closing brackets and quotation marks
    JOINER = 1 << 7,      // belongs to a word when it stands inside one: apostrophes, ZWJ, ZWNJ
    UNSPACED = 1 << 8,    // a letter of a script written without spaces
    BULLET = 1 << 9,      // starts a list item
    MOJIBAKE = 1 << 10,   // U+00C2, U+00C3, U+00E2: first half of UTF-8 read as Latin-1 or cp1252
    CONTINUED = 1 << 11,  // second half of the same: U+0080..U+00BF and their cp1252 images
    WORD = LETTER | MARK | DIGIT,
};

// What letters count as: numbers from 1 on name SCRIPT_NAMES[number - 1]; 0 has no script.
inline constexpr int SCRIPT_SHIFT = 16;
inline std::size_t script_of(Properties properties) { return properties >> SCRIPT_SHIFT; }

inline constexpr CodePoint REPLACEMENT = 0xFFFD;
inline constexpr CodePoint CODE_POINTS = 0x110000;
inline constexpr CodePoint CASED_CODE_POINTS = 0x20000;  // no letter from here on has a lower case

class Unicode {
  public:
    static const Unicode& instance();
    // `code` must be below CODE_POINTS, as all that decode_utf8 yields is.
    Properties properties(CodePoint code) const { return properties_[code]; }
    CodePoint lower(CodePoint code) const { return code < CASED_CODE_POINTS ? lower_[code] : code; }

  private:
    Unicode();
    std::vector<Properties> properties_;
    std::vector<CodePoint> lower_;
};

// Replaces `out` by the code points of `bytes`; each maximal malformed part becomes one U+FFFD, as in Python's
// bytes.decode("utf-8", "replace") and the WHATWG encoding standard.
void decode_utf8(Bytes bytes, CodePoints& out);

}  // namespace bloomery::text
