// Runs the kernels of csrc/ without Python, for the sanitizers. Reads documents from stdin and prints numbers as text.
//
// Input: for each document a uint8 (1 if unspaced), a uint64 (number of bytes) and the bytes, in machine byte order.
// Output: for each document, one line per kernel. Doubles are printed in hexadecimal, which is exact. The last line is
// a digest of the merges that the trainer learnt from all documents. Each document is in an allocation of its exact
// size, so that the sanitizer finds reads beyond its end.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "bpe/trainer.hpp"
#include "text/content.hpp"
#include "text/lines.hpp"
#include "text/measure.hpp"
#include "text/minhash.hpp"
#include "text/shingles.hpp"

namespace {

using bloomery::Bytes;

struct Document {
    std::unique_ptr<std::uint8_t[]> bytes;
    std::uint64_t size;
    std::uint8_t unspaced;
    Bytes view() const { return {bytes.get(), bytes.get() + size}; }
};

bool read(Document& document) {
    if (std::fread(&document.unspaced, 1, 1, stdin) != 1) return false;
    if (std::fread(&document.size, sizeof document.size, 1, stdin) != 1) return false;
    document.bytes.reset(new std::uint8_t[document.size]);
    return document.size == 0 || std::fread(document.bytes.get(), document.size, 1, stdin) == 1;
}

Bytes literal(const char* text) {
    const auto* const begin = reinterpret_cast<const std::uint8_t*>(text);
    const auto* end = begin;
    while (*end) ++end;
    return {begin, end};
}

void show(double value) { std::printf(" %a", value); }
void show(std::int64_t value) { std::printf(" %lld", static_cast<long long>(value)); }
void show(std::uint64_t value) { std::printf(" %llu", static_cast<unsigned long long>(value)); }

std::uint64_t digest(std::uint64_t state, std::uint64_t value) { return (state ^ value) * 0x100000001B3u; }

template <typename Values>
void show_digest(const Values& values) {
    std::uint64_t state = 0xCBF29CE484222325u;
    for (const auto value : values) state = digest(state, value);
    show(static_cast<std::uint64_t>(values.size()));
    show(state);
    std::printf("\n");
}

}  // namespace

int main() {
    using namespace bloomery::text;
    const auto lists = [](bool unspaced) {
        return WordLists{WordSet({literal("the"), literal("\xE0\xA4\x95\xE0\xA4\xBE"), literal("a")}, unspaced),
                         WordSet({literal("the a"), literal("a a a a a a a a")}, unspaced)};
    };
    const WordLists spaced = lists(false), unspaced = lists(true);
    const LineRule rule{7, 3};
    Measurer measurer;
    Shingler shingler({5, 5});
    MinHasher hasher(14, 8, 1);
    std::vector<std::uint64_t> keys(14), hashes, before;
    std::vector<std::uint8_t> text;
    bloomery::bpe::Settings settings{{}, 2, 32};
    for (std::size_t byte = 0; byte < 256; ++byte) settings.symbol_order[byte] = static_cast<std::uint8_t>(byte);
    bloomery::bpe::Trainer trainer(settings);
    for (Document document; read(document);) {
        const Bytes bytes = document.view();
        const bool flag = document.unspaced != 0;
        const Measures measures = measurer.measure(bytes, flag, flag ? &unspaced : &spaced);
#define SHOW(type, name) show(measures.name);
        BLOOMERY_MEASURES(SHOW)
        for (const double share : measures.scripts) show(share);
        std::printf("\n");
        const std::vector<std::uint64_t>& shingles = shingler.shingles(bytes, flag);
        hasher.band_keys(shingles, keys.data());
        show_digest(keys);
        // Number of shingles shared with the previous document. The allocations have the exact size of the shingles.
        std::vector<std::uint64_t> different(shingles);
        std::sort(different.begin(), different.end());
        different.erase(std::unique(different.begin(), different.end()), different.end());
        different.shrink_to_fit();
        show(count_shared(different.data(), different.data() + different.size(), before.data(),
                          before.data() + before.size()));
        std::printf("\n");
        before = different;
        hashes.clear();
        const std::uint64_t content = add_line_hashes(bytes, rule, hashes);
        show(content >> 32);
        show_digest(hashes);
        // Remove every second hash's lines.
        std::vector<std::uint64_t> repeated;
        for (std::size_t i = 0; i < hashes.size(); i += 2) repeated.push_back(hashes[i]);
        text.clear();
        show(static_cast<std::uint64_t>(
            add_without_lines(bytes, rule, repeated.data(), repeated.data() + repeated.size(), text)));
        show_digest(text);
        text.clear();
        show(static_cast<std::uint64_t>(add_normal_form(bytes, text)));
        show_digest(text);
        trainer.add(bytes.begin, bytes.end, 3);
    }
    std::vector<std::uint64_t> merges;
    for (const auto& [left, right] : trainer.train(200, [](std::size_t) {})) {
        merges.push_back(static_cast<std::uint64_t>(left));
        merges.push_back(static_cast<std::uint64_t>(right));
    }
    show_digest(merges);
    return 0;
}
