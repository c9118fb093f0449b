// The definition of a word that the measures and the shingles of MinHash share.
#pragma once

#include <cstddef>

#include "hash.hpp"
#include "unicode.hpp"

namespace bloomery::text {

// Calls emit(begin, end) for each word of code_points[0, count). A word is a maximal run of letters, marks and decimal
// digits. An apostrophe, ZWJ or ZWNJ between two of these belongs to the word. In an unspaced document, each letter of
// a script written without spaces is a separate word, together with the marks that follow it.
template <typename Emit>
void for_each_word(const CodePoint* code_points, std::size_t count, bool unspaced, Emit emit) {
    const Unicode& unicode = Unicode::instance();
    const Properties alone = unspaced ? Properties{UNSPACED} : 0;
    std::size_t at = 0;
    while (at < count) {
        const Properties first = unicode.properties(code_points[at]);
        if (!(first & WORD)) {
            ++at;
            continue;
        }
        const std::size_t begin = at++;
        if (first & alone) {
            while (at < count && (unicode.properties(code_points[at]) & MARK)) ++at;
        } else {
            while (at < count) {
                Properties next = unicode.properties(code_points[at]);
                if ((next & JOINER) && at + 1 < count) {
                    next = unicode.properties(code_points[at + 1]);
                }
                if (!(next & WORD) || (next & alone)) break;
                ++at;
            }
        }
        emit(begin, at);
    }
}

// Returns a hash of a word that ignores case, apostrophes and joiners.
inline std::uint64_t hash_word(const CodePoint* begin, const CodePoint* end) {
    const Unicode& unicode = Unicode::instance();
    std::uint64_t hash = 0;
    for (; begin != end; ++begin) {
        if (!(unicode.properties(*begin) & JOINER)) hash = (hash + unicode.lower(*begin) + 1) * HASH_BASE;
    }
    return mix(hash);
}

}  // namespace bloomery::text
