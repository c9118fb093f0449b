#include "content.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "composition_table.hpp"
#include "unicode.hpp"

namespace bloomery::text {
namespace {

constexpr std::uint16_t GAP = 1 << 15;  // flag of white space characters

class Forms {
  public:
    static const Forms& instance() {
        static const Forms forms;
        return forms;
    }
    std::uint16_t operator[](CodePoint code) const { return forms_[code]; }

  private:
    Forms() : forms_(CODE_POINTS) {
        for (const auto& run : table::FORM_RUNS) std::fill(&forms_[run.first], &forms_[run.last] + 1, run.form);
        for (CodePoint code = 0; code < CODE_POINTS; ++code) {
            if (Unicode::instance().properties(code) & SPACE) forms_[code] = GAP;
        }
    }
    std::vector<std::uint16_t> forms_;
};

bool composes(CodePoint first, CodePoint second) {
    const auto before = [](const table::Pair& pair, const table::Pair& wanted) {
        return pair.first != wanted.first ? pair.first < wanted.first : pair.second < wanted.second;
    };
    return std::binary_search(std::begin(table::PAIRS), std::end(table::PAIRS), table::Pair{first, second}, before);
}

// Checks a text character by character. `settled` stays true while the text is known to be in NFC.
struct Composition {
    CodePoint starter = 0;        // the last character of combining class 0
    bool starter_composed = false;
    std::uint16_t last_class = 0;
    bool settled = true;

    void add(CodePoint code, std::uint16_t form) {
        const std::uint16_t combining = form & 0xFFu;
        // It is not known whether the text is in NFC if marks are out of order or if this character can compose with
        // the starter. A composed starter can decompose, and one of its parts can then compose with this character.
        if ((form & table::UNSETTLED) || (combining != 0 && combining < last_class) ||
            ((form & table::JOINS) && (starter_composed || composes(starter, code)))) {
            settled = false;
        }
        last_class = combining;
        if (combining == 0) {
            starter = code;
            starter_composed = (form & table::COMPOSED) != 0;
        }
    }
};

// Returns the length of the non-ASCII character at `at` and stores its code point. A malformed byte has length 1 and
// the code point U+FFFD. The caller then copies the byte unchanged and reports the text as not settled.
std::size_t decode(const std::uint8_t* at, const std::uint8_t* end, CodePoint& code) {
    const std::size_t length = *at >= 0xF0 ? 4 : *at >= 0xE0 ? 3 : 2;
    code = REPLACEMENT;
    if (*at < 0xC2 || *at > 0xF4 || static_cast<std::size_t>(end - at) < length) return 1;
    CodePoint found = *at & (0x7Fu >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((at[i] & 0xC0u) != 0x80u) return 1;
        found = found << 6 | (at[i] & 0x3Fu);
    }
    if (found >= CODE_POINTS) return 1;
    code = found;
    return length;
}

}  // namespace

bool add_normal_form(Bytes text, std::vector<std::uint8_t>& out) {
    const Forms& forms = Forms::instance();
    const std::size_t start = out.size();
    out.resize(start + text.size());  // the normal form is not longer: a run of white space has at least one byte
    std::uint8_t* const first = out.data() + start;
    std::uint8_t* to = first;
    Composition composition;
    bool gap = false;
    for (const std::uint8_t* at = text.begin; at < text.end;) {
        CodePoint code = *at;
        std::size_t length = 1;
        bool whole = true;
        if (code >= 0x80) {
            length = decode(at, text.end, code);
            whole = length > 1;
        }
        const std::uint16_t form = forms[code];
        if (form & GAP) {
            gap = true;
            at += length;
            continue;
        }
        if (gap && to > first) {
            *to++ = ' ';
            composition.add(' ', 0);
        }
        gap = false;
        composition.add(code, form);
        composition.settled &= whole;
        for (const std::uint8_t* const end = at + length; at < end;) *to++ = *at++;
    }
    out.resize(static_cast<std::size_t>(to - out.data()));
    return composition.settled;
}

}  // namespace bloomery::text
