#include "lines.hpp"

#include <algorithm>
#include <cstring>

#include "hash.hpp"
#include "unicode.hpp"

namespace bloomery::text {
namespace {

bool is_continuation(std::uint8_t byte) { return (byte & 0xC0u) == 0x80u; }

// Returns the length in bytes of the white space character at the start of `bytes`, or 0 if there is none. `bytes` must
// not be empty. In UTF-8, white space characters have at most three bytes.
std::size_t leading_space(Bytes bytes) {
    const std::uint8_t* at = bytes.begin;
    CodePoint code = *at;
    std::size_t length = 1;
    if ((*at & 0xE0u) == 0xC0u && bytes.size() >= 2 && is_continuation(at[1])) {
        code = (*at & 0x1Fu) << 6 | (at[1] & 0x3Fu);
        length = 2;
    } else if ((*at & 0xF0u) == 0xE0u && bytes.size() >= 3 && is_continuation(at[1]) && is_continuation(at[2])) {
        code = (*at & 0x0Fu) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
        length = 3;
    } else if (*at >= 0x80u) {
        return 0;
    }
    return (Unicode::instance().properties(code) & SPACE) != 0 ? length : 0;
}

std::size_t trailing_space(Bytes bytes) {
    const std::uint8_t* at = bytes.end - 1;
    while (at > bytes.begin && bytes.end - at < 3 && is_continuation(*at)) --at;
    const Bytes last{at, bytes.end};
    return leading_space(last) == last.size() ? last.size() : 0;
}

Bytes stripped(Bytes line) {
    while (line.begin < line.end) {
        const std::size_t space = leading_space(line);
        if (space == 0) break;
        line.begin += space;
    }
    while (line.begin < line.end) {
        const std::size_t space = trailing_space(line);
        if (space == 0) break;
        line.end -= space;
    }
    return line;
}

bool has_characters(Bytes line, std::size_t least) {
    if (line.size() < least) return false;
    if (line.size() / 4 >= least) return true;
    return static_cast<std::size_t>(std::count_if(line.begin, line.end,
                                                  [](std::uint8_t byte) { return !is_continuation(byte); })) >= least;
}

// Loads 8 bytes in little-endian order on every machine. Compilers turn the loop into one load.
std::uint64_t load(const std::uint8_t* at) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < 8; ++i) value |= static_cast<std::uint64_t>(at[i]) << (8 * i);
    return value;
}

std::uint64_t hash_bytes(Bytes bytes, std::uint64_t salt) {
    constexpr std::uint64_t FLIP = 0xD6E8FEB86659FD93u;
    std::uint64_t state = mix(salt ^ bytes.size() * HASH_BASE);
    const std::uint8_t* at = bytes.begin;
    for (; bytes.end - at >= 16; at += 16) state = fold_multiply(load(at) ^ FLIP, load(at + 8) ^ state);
    std::uint8_t rest[16] = {};
    std::copy(at, bytes.end, rest);
    return mix(fold_multiply(load(rest) ^ FLIP, load(rest + 8) ^ state));
}

// Calls emit(line with its line ending, line without leading and trailing white space) for each line.
template <typename Emit>
void for_each_line(Bytes document, Emit emit) {
    for (const std::uint8_t* begin = document.begin; begin < document.end;) {
        const auto* found = static_cast<const std::uint8_t*>(
            std::memchr(begin, '\n', static_cast<std::size_t>(document.end - begin)));
        const std::uint8_t* const end = found != nullptr ? found : document.end;
        const Bytes whole{begin, found != nullptr ? found + 1 : end};
        emit(whole, stripped({begin, end}));
        begin = whole.end;
    }
}

}  // namespace

std::uint64_t add_line_hashes(Bytes document, LineRule rule, std::vector<std::uint64_t>& hashes) {
    const auto before = static_cast<std::ptrdiff_t>(hashes.size());
    std::uint64_t content = 0;
    for_each_line(document, [&](Bytes, Bytes line) {
        if (line.size() == 0) return;
        const std::uint64_t hash = hash_bytes(line, rule.salt);
        content = mix(content + HASH_BASE) + hash;
        if (has_characters(line, rule.characters)) hashes.push_back(hash);
    });
    std::sort(hashes.begin() + before, hashes.end());
    hashes.erase(std::unique(hashes.begin() + before, hashes.end()), hashes.end());
    return mix(content);
}

std::size_t add_without_lines(Bytes document, LineRule rule, const std::uint64_t* first, const std::uint64_t* last,
                              std::vector<std::uint8_t>& text) {
    const std::size_t before = text.size();
    std::size_t removed = 0;
    bool last_went = false;
    for_each_line(document, [&](Bytes whole, Bytes line) {
        last_went = has_characters(line, rule.characters) &&
                    std::binary_search(first, last, hash_bytes(line, rule.salt));
        removed += last_went;
        if (!last_went) text.insert(text.end(), whole.begin, whole.end);
    });
    if (last_went && document.end[-1] != '\n' && text.size() > before) {
        text.pop_back();
        if (text.size() > before && text.back() == '\r') text.pop_back();
    }
    return removed;
}

}  // namespace bloomery::text
