#include "unicode.hpp"

#include <cstring>

#include "unicode_table.hpp"

namespace bloomery::text {
namespace {

// Unicode property Sentence_Terminal in the scripts of living languages, the ellipses, the Greek question mark, and
// the danda-like marks of Tibetan, Sinhala and Ol Chiki.
constexpr char32_t TERMINALS[] =
    U".!?\u2026\u2025\u203C\u203D\u2047\u2048\u2049\u3002\uFF01\uFF0E\uFF1F\uFF61\uFE52\uFE56\uFE57\u037E\u0589"
    U"\u061D\u061E\u061F\u06D4\u0700\u0701\u0702\u07F9\u0837\u0839\u083D\u083E\u0964\u0965\u0DF4\u0F0D\u0F0E\u104A"
    U"\u104B\u1362\u1367\u1368\u166E\u1735\u1736\u17D4\u17D5\u1803\u1809\u1944\u1945\u1AA8\u1AA9\u1AAA\u1AAB\u1B5A"
    U"\u1B5B\u1B5E\u1B5F\u1C3B\u1C3C\u1C7E\u1C7F\u2E2E\u2E3C\uA4FF\uA60E\uA60F\uA6F3\uA6F7\uA876\uA877\uA8CE\uA8CF"
    U"\uA92F\uA9C8\uA9C9\uAA5D\uAA5E\uAA5F\uAAF0\uAAF1\uABEB";
constexpr char32_t BULLETS[] =
    U"-*\u00B7\u2022\u2023\u2043\u25A0\u25A1\u25AA\u25AB\u25B6\u25BA\u25CB\u25CF\u25E6\u30FB";
constexpr char32_t JOINERS[] = U"'\u2019\u200C\u200D";
constexpr char32_t ORDINARY[] = U" \t\n\r\u200C\u200D";
constexpr char32_t CLOSERS[] = U"\"'";
constexpr char32_t MOJIBAKE_LEADS[] = U"\u00C2\u00C3\u00E2";
// Characters of cp1252 for the bytes 0x80..0x9F, where it differs from Latin-1.
constexpr char32_t CP1252_IMAGES[] =
    U"\u20AC\u201A\u0192\u201E\u2026\u2020\u2021\u02C6\u2030\u0160\u2039\u0152\u017D\u2018\u2019\u201C\u201D\u2022"
    U"\u2013\u2014\u02DC\u2122\u0161\u203A\u0153\u017E\u0178";

Properties of_category(std::uint8_t category) {
    using namespace table;
    switch (category) {
        case Lu: case Ll: case Lt: case Lm: case Lo: return LETTER;
        case Mn: case Mc: case Me: return MARK;
        case Nd: return DIGIT | SPECIAL;
        case Pe: case Pi: case Pf: return SPECIAL | CLOSER;
        case Zs: case Zl: case Zp: return SPECIAL | SPACE;
        default: return SPECIAL;
    }
}

}  // namespace

Unicode::Unicode() : properties_(CODE_POINTS), lower_(CASED_CODE_POINTS) {
    CodePoint code = 0;
    for (const std::uint32_t run : table::CATEGORY_RUNS) {
        const Properties properties = of_category(static_cast<std::uint8_t>(run & 31));
        for (const CodePoint end = code + (run >> 5); code < end; ++code) properties_[code] = properties;
    }
    const auto add = [this](const char32_t* set, Property property) {
        for (; *set; ++set) properties_[*set] |= property;
    };
    add(TERMINALS, TERMINAL);
    add(BULLETS, BULLET);
    add(JOINERS, JOINER);
    add(CLOSERS, CLOSER);
    add(MOJIBAKE_LEADS, MOJIBAKE);
    add(CP1252_IMAGES, CONTINUED);
    for (CodePoint c = 0x80; c < 0xC0; ++c) properties_[c] |= CONTINUED;
    for (const CodePoint c : {0x09u, 0x0Au, 0x0Bu, 0x0Cu, 0x0Du, 0x1Cu, 0x1Du, 0x1Eu, 0x1Fu, 0x85u}) {
        properties_[c] |= SPACE;
    }
    for (const char32_t* c = ORDINARY; *c; ++c) properties_[*c] &= ~Properties{SPECIAL};
    for (const auto& range : table::UNSPACED_RANGES) {
        for (CodePoint c = range.first; c <= range.last; ++c) properties_[c] |= UNSPACED;
    }
    for (const auto& range : table::SCRIPT_RANGES) {
        for (CodePoint c = range.first; c <= range.last; ++c) {
            if (properties_[c] & LETTER) properties_[c] |= range.script << SCRIPT_SHIFT;
        }
    }
    for (CodePoint c = 0; c < CASED_CODE_POINTS; ++c) lower_[c] = c;
    for (const auto& range : table::LOWER_RANGES) {
        for (CodePoint c = range.first; c <= range.last; c += range.stride) {
            lower_.at(c) = static_cast<CodePoint>(static_cast<std::int64_t>(c) + range.delta);
        }
    }
}

const Unicode& Unicode::instance() {
    static const Unicode unicode;
    return unicode;
}

void decode_utf8(Bytes bytes, CodePoints& out) {
    out.resize(bytes.size());  // never more code points than bytes
    CodePoint* to = out.data();
    const std::uint8_t* at = bytes.begin;
    const std::uint8_t* const end = bytes.end;
    while (at < end) {
        const std::uint8_t lead = *at;
        if (lead < 0x80) {
            std::uint64_t eight;
            while (end - at >= 8 && (std::memcpy(&eight, at, 8), (eight & 0x8080808080808080u) == 0)) {
                for (int i = 0; i < 8; ++i) *to++ = *at++;
            }
            while (at < end && *at < 0x80) *to++ = *at++;
            continue;
        }
        // By table 3-7 of the Unicode standard, the first byte decides the length and the range of the second byte.
        int more = 0;
        std::uint8_t low = 0x80, high = 0xBF;
        CodePoint code = 0;
        if (lead >= 0xC2 && lead <= 0xDF) {
            more = 1, code = lead & 0x1Fu;
        } else if (lead >= 0xE0 && lead <= 0xEF) {
            more = 2, code = lead & 0x0Fu;
            if (lead == 0xE0) low = 0xA0;
            if (lead == 0xED) high = 0x9F;
        } else if (lead >= 0xF0 && lead <= 0xF4) {
            more = 3, code = lead & 0x07u;
            if (lead == 0xF0) low = 0x90;
            if (lead == 0xF4) high = 0x8F;
        }
        ++at;
        bool complete = more > 0;
        for (; more > 0; --more, low = 0x80, high = 0xBF) {
            if (at == end || *at < low || *at > high) {
                complete = false;
                break;
            }
            code = code << 6 | (*at++ & 0x3Fu);
        }
        *to++ = complete ? code : REPLACEMENT;
    }
    out.resize(static_cast<std::size_t>(to - out.data()));
}

}  // namespace bloomery::text
