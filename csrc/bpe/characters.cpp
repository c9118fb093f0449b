#include "characters.hpp"

namespace bloomery::bpe {
namespace {

constexpr std::size_t CODE_POINTS = 0x110000;
// Separators besides white space. The characters `(`, `|` and `)` are separators only because of a mistake in BLOOM's
// published pattern.
constexpr char32_t BLOOM_SEPARATORS[] = U"(|).,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C";

}  // namespace

Characters::Characters() : classes_(CODE_POINTS) {
    std::size_t code = 0;
    for (const std::uint32_t run : table::CLASS_RUNS) {
        auto classes = static_cast<std::uint8_t>(run & 0x0F);
        if (classes & SPACE) classes |= SEPARATOR;
        for (const std::size_t end = code + (run >> 4); code < end; ++code) classes_.at(code) = classes;
    }
    for (const char32_t* c = BLOOM_SEPARATORS; *c; ++c) classes_[*c] |= SEPARATOR;
    for (const char32_t c : {U'\u200C', U'\u200D'}) classes_[c] |= JOINER;
    for (const char32_t c : {U'\r', U'\n'}) classes_[c] |= NEWLINE;
}

const Characters& Characters::instance() {
    static const Characters characters;
    return characters;
}

}  // namespace bloomery::bpe
