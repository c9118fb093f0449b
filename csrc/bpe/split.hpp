// Splits text into pre-tokens, whose borders no token crosses. data_prep/tokenizer/pre_tokenizer.py defines and
// explains the patterns. The code here finds the same pieces in one pass, in time linear in the number of bytes.
//
// The concatenated pieces equal the text. No piece is empty. Malformed bytes, which Arrow strings never contain, are
// treated as punctuation.
#pragma once

#include <cstdint>

#include "characters.hpp"

namespace bloomery::bpe {

enum class Preset { Bloom, Modern };

struct SplitRules {
    Preset preset;
    bool split_digits;  // whether every numeric character is a separate piece
};

namespace detail {

using Byte = std::uint8_t;

// Returns the end of the run of characters that have any of the classes, or none of them if `inside` is false.
inline const Byte* run_end(const Characters& known, const Byte* at, const Byte* end, std::uint8_t classes, bool inside) {
    while (at < end) {
        const Character character = known.at(at, end);
        if (character.is(classes) != inside) break;
        at += character.bytes;
    }
    return at;
}

// Splits into matches of ` ?[^separators]+` and the text between matches.
template <class Visit>
void split_bloom(const Byte* at, const Byte* end, Visit& visit) {
    const Characters& known = Characters::instance();
    while (at < end) {
        const Byte* piece = run_end(known, at, end, SEPARATOR, true);
        const Byte* const behind = run_end(known, piece, end, SEPARATOR, false);
        if (piece > at && piece < behind && piece[-1] == ' ') --piece;
        if (at < piece) visit(at, piece);
        if (piece < behind) visit(piece, behind);
        at = behind;
    }
}

// Returns the end of a piece of white space. It ends after the last newline of the run. If the run has no newline but
// several characters, and text follows, the last character is left out, because it may belong to the next piece.
inline const Byte* space_end(const Characters& known, const Byte* begin, const Byte* end) {
    const Byte *at = begin, *last = begin, *newline = begin;
    while (at < end) {
        const Character character = known.at(at, end);
        if (!character.is(SPACE)) break;
        last = at;
        at += character.bytes;
        if (character.is(NEWLINE)) newline = at;
    }
    if (newline > begin) return newline;
    return at == end || last == begin ? at : last;
}

// Returns the end of the piece that begins at `at`. The checks follow the order of the pattern's alternatives.
inline const Byte* modern_end(const Characters& known, const Byte* const at, const Byte* const end) {
    constexpr std::uint8_t NO_PUNCTUATION = SPACE | WORD | NUMBER;
    const Character first = known.at(at, end);
    const Byte* const second = at + first.bytes;
    if (first.is(NUMBER)) {
        const Byte* behind = second;
        for (int more = 2; more > 0 && behind < end; --more) {
            const Character character = known.at(behind, end);
            if (!character.is(NUMBER)) break;
            behind += character.bytes;
        }
        return behind;
    }
    if (first.is(WORD)) return run_end(known, second, end, WORD | JOINER, true);
    const Character next = second < end ? known.at(second, end) : Character{SPACE, 0};
    if (next.is(WORD) && !first.is(NEWLINE)) return run_end(known, second, end, WORD | JOINER, true);
    if (!first.is(SPACE) || (*at == ' ' && !next.is(NO_PUNCTUATION))) {
        return run_end(known, run_end(known, second, end, NO_PUNCTUATION, false), end, NEWLINE, true);
    }
    return space_end(known, at, end);
}

template <class Visit>
void split_modern(const Byte* at, const Byte* end, Visit& visit) {
    const Characters& known = Characters::instance();
    while (at < end) {
        const Byte* const behind = modern_end(known, at, end);
        visit(at, behind);
        at = behind;
    }
}

// Splits a piece so that every numeric character is a piece of its own.
template <class Visit>
void split_numeric(const Byte* at, const Byte* end, Visit& visit) {
    const Characters& known = Characters::instance();
    while (at < end) {
        const Byte* const numeric = run_end(known, at, end, NUMERIC, false);
        if (at < numeric) visit(at, numeric);
        at = numeric;
        if (at == end) break;
        at += known.at(at, end).bytes;
        visit(numeric, at);
    }
}

}  // namespace detail

// Calls visit(piece_begin, piece_end) for each piece of the text, in order.
template <class Visit>
void split(const std::uint8_t* begin, const std::uint8_t* end, const SplitRules& rules, Visit visit) {
    const auto pieces = [&](auto& each) {
        if (rules.preset == Preset::Bloom) {
            detail::split_bloom(begin, end, each);
        } else {
            detail::split_modern(begin, end, each);
        }
    };
    if (!rules.split_digits) return pieces(visit);
    auto cut = [&](const std::uint8_t* from, const std::uint8_t* to) { detail::split_numeric(from, to, visit); };
    pieces(cut);
}

}  // namespace bloomery::bpe
