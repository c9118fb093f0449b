// Reads UTF-8 characters and looks up the character classes that the pre-tokenizers' patterns use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "class_table.hpp"

namespace bloomery::bpe {

// Character classes, combined as bit sets. The first four come from the generated table.
enum Class : std::uint8_t {
    WORD = table::WORD,        // \p{L}, \p{M}
    NUMBER = table::NUMBER,    // \p{N} of Oniguruma
    SPACE = table::SPACE,      // \s, which equals \p{White_Space}
    NUMERIC = table::NUMERIC,  // Rust's char::is_numeric: NUMBER and characters added by a newer Unicode version
    JOINER = 1 << 4,           // zero-width joiner and non-joiner
    NEWLINE = 1 << 5,          // \r, \n
    SEPARATOR = 1 << 6,        // separators of BLOOM's pieces
};

struct Character {
    std::uint8_t classes;
    std::uint8_t bytes;
    bool is(std::uint8_t any) const { return (classes & any) != 0; }
};

class Characters {
  public:
    static const Characters& instance();

    // Returns the character at `at`, which must be before `end`. A byte that is not part of well-formed UTF-8 is
    // returned as a character without a class.
    Character at(const std::uint8_t* at, const std::uint8_t* end) const {
        return *at < 0x80 ? Character{classes_[*at], 1} : beyond_ascii(at, end);
    }

  private:
    Characters();

    Character beyond_ascii(const std::uint8_t* at, const std::uint8_t* end) const {
        const auto continues = [&](std::ptrdiff_t i) { return (at[i] & 0xC0) == 0x80; };
        const auto bits = [&](std::ptrdiff_t i, int shift) { return static_cast<std::uint32_t>(at[i] & 0x3F) << shift; };
        const std::uint32_t lead = *at;
        const std::ptrdiff_t left = end - at;
        if (lead >= 0xC2 && lead < 0xE0) {
            if (left >= 2 && continues(1)) return {classes_[(lead & 0x1F) << 6 | bits(1, 0)], 2};
        } else if (lead >= 0xE0 && lead < 0xF0) {
            if (left >= 3 && continues(1) && continues(2)) {
                const std::uint32_t code = (lead & 0x0F) << 12 | bits(1, 6) | bits(2, 0);
                if (code >= 0x800 && (code < 0xD800 || code >= 0xE000)) return {classes_[code], 3};
            }
        } else if (lead >= 0xF0 && lead < 0xF5) {
            if (left >= 4 && continues(1) && continues(2) && continues(3)) {
                const std::uint32_t code = (lead & 0x07) << 18 | bits(1, 12) | bits(2, 6) | bits(3, 0);
                if (code >= 0x10000 && code < 0x110000) return {classes_[code], 4};
            }
        }
        return {0, 1};
    }

    std::vector<std::uint8_t> classes_;  // classes of each code point
};

}  // namespace bloomery::bpe
