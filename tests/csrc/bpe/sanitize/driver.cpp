// Runs the kernels of csrc/bpe without Python, for the sanitizers. Reads documents from stdin and prints numbers as
// text.
//
// Input: for each document a uint64 (number of bytes) and the bytes, in machine byte order. Output: for each way to
// split, one line per document with its pieces, one line with the counts of all pieces, one line with the merges learnt
// from them, and one line per document with its tokens. Each line is a number of values and a digest of the values.
// Each document is in an allocation of its exact size, so that the sanitizer finds reads beyond its end.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "bpe/count.hpp"
#include "bpe/encode.hpp"
#include "bpe/split.hpp"
#include "bpe/trainer.hpp"

namespace {

using namespace bloomery::bpe;

struct Document {
    std::unique_ptr<std::uint8_t[]> bytes;
    std::uint64_t size;
    const std::uint8_t* begin() const { return bytes.get(); }
    const std::uint8_t* end() const { return bytes.get() + size; }
};

bool read(Document& document) {
    if (std::fread(&document.size, sizeof document.size, 1, stdin) != 1) return false;
    document.bytes.reset(new std::uint8_t[document.size]);
    return document.size == 0 || std::fread(document.bytes.get(), document.size, 1, stdin) == 1;
}

class Digest {
  public:
    void add(std::uint64_t value) {
        state_ = (state_ ^ value) * 0x100000001B3u;
        ++count_;
    }
    ~Digest() {
        std::printf("%llu %llu\n", static_cast<unsigned long long>(count_), static_cast<unsigned long long>(state_));
    }

  private:
    std::uint64_t state_ = 0xCBF29CE484222325u, count_ = 0;
};

std::vector<Merge> learnt(PieceCounter& counter) {
    Settings settings{{}, 2, 32};
    for (std::size_t byte = 0; byte < 256; ++byte) settings.symbol_order[byte] = static_cast<Token>(byte);
    Trainer trainer(settings);
    {
        Digest digest;
        counter.sort();
        for (std::size_t i = 0; i < counter.size(); ++i) {
            const bloomery::Bytes piece = counter.piece(i);
            trainer.add(piece.begin, piece.end, counter.count(i));
            for (const std::uint8_t* at = piece.begin; at < piece.end; ++at) digest.add(*at);
            digest.add(static_cast<std::uint64_t>(counter.count(i)));
        }
        digest.add(static_cast<std::uint64_t>(counter.occurrences()));
        digest.add(static_cast<std::uint64_t>(counter.text_bytes()));
        digest.add(static_cast<std::uint64_t>(counter.cut()));
        counter.clear();
    }
    Digest digest;
    std::vector<Merge> merges;
    for (const auto& [left, right] : trainer.train(3000, [](std::size_t) {})) {
        merges.push_back({left, right, static_cast<Token>(256 + merges.size())});
        digest.add(static_cast<std::uint64_t>(left));
        digest.add(static_cast<std::uint64_t>(right));
    }
    return merges;
}

}  // namespace

int main() {
    std::vector<Document> documents;
    for (Document document; read(document);) documents.push_back(std::move(document));
    std::array<Token, 256> bytes{};
    for (std::size_t byte = 0; byte < 256; ++byte) bytes[byte] = static_cast<Token>(byte);
    for (const Preset preset : {Preset::Bloom, Preset::Modern}) {
        for (const bool split_digits : {false, true}) {
            const SplitRules rules{preset, split_digits};
            PieceCounter counter;
            for (const Document& document : documents) {
                Digest digest;
                split(document.begin(), document.end(), rules, [&](const std::uint8_t* begin, const std::uint8_t* end) {
                    digest.add(static_cast<std::uint64_t>(end - document.begin()));
                    counter.add(begin, end);
                });
            }
            Encoder encoder(bytes, learnt(counter), rules, [] {});
            for (const Document& document : documents) {
                Digest digest;
                const std::unique_ptr<Token[]> tokens(new Token[document.size]);
                const Token* const end = encoder.encode(document.begin(), document.end(), tokens.get());
                for (const Token* at = tokens.get(); at < end; ++at) digest.add(static_cast<std::uint64_t>(*at));
            }
        }
    }
    return 0;
}
