#include "encode.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace bloomery::bpe {
namespace {

constexpr std::size_t SHORT = 96;           // bytes; up to this length, a linear search for pairs is as fast as a heap
constexpr std::size_t KEPT = 1 << 20;       // symbols; up to this number, the memory is reused for the next long piece
constexpr std::size_t POLL_WORK = 1 << 20;  // bytes or merge steps between two calls of `poll`: tens of milliseconds
constexpr std::uint32_t NOWHERE = ~std::uint32_t{0};
constexpr Token GONE = -1;

}  // namespace

Encoder::Encoder(const std::array<Token, 256>& bytes, const std::vector<Merge>& merges, SplitRules rules,
                 std::function<void()> poll)
    : bytes_(bytes), merges_(bytes, merges), rules_(rules), poll_(std::move(poll)) {}

Token* Encoder::encode(const std::uint8_t* begin, const std::uint8_t* end, Token* out) {
    split(begin, end, rules_, [&](const std::uint8_t* piece, const std::uint8_t* piece_end) {
        out = encode_piece(piece, piece_end, out);
        did(static_cast<std::size_t>(piece_end - piece));
    });
    return out;
}

void Encoder::did(std::size_t work) {
    since_poll_ += work;
    if (since_poll_ < POLL_WORK) return;
    since_poll_ = 0;
    poll_();
}

Token* Encoder::encode_piece(const std::uint8_t* begin, const std::uint8_t* end, Token* out) {
    const auto length = static_cast<std::size_t>(end - begin);
    if (length == 1) {
        *out++ = bytes_[*begin];
        return out;
    }
    if (length > PieceCache::LONGEST) return merge_long(begin, length, out);
    const PieceCache::Tokens known = cache_.find(begin, length);
    if (known.count) return std::copy(known.begin, known.begin + known.count, out);
    Token* const made = length <= SHORT ? merge_short(begin, length, out) : merge_long(begin, length, out);
    cache_.insert(begin, length, out, static_cast<std::size_t>(made - out));
    return made;
}

Token* Encoder::merge_short(const std::uint8_t* piece, std::size_t length, Token* out) const {
    std::array<MergeKey, SHORT> keys;  // merge of each token with the next token
    std::size_t pairs = length - 1;
    for (std::size_t i = 0; i < length; ++i) out[i] = bytes_[piece[i]];
    for (std::size_t i = 0; i < pairs; ++i) keys[i] = merges_.of_bytes(piece[i], piece[i + 1]);
    while (pairs > 0) {
        MergeKey best = keys[0];
        std::size_t at = 0;
        for (std::size_t i = 1; i < pairs; ++i) {
            at = keys[i] < best ? i : at;
            best = std::min(best, keys[i]);
        }
        if (!best) break;
        out[at] = best.made();
        --pairs;
        std::copy(out + at + 2, out + pairs + 2, out + at + 1);
        std::copy(keys.begin() + at + 1, keys.begin() + pairs + 1, keys.begin() + at);
        if (at > 0) keys[at - 1] = merges_.find(out[at - 1], out[at]);
        if (at < pairs) keys[at] = merges_.find(out[at], out[at + 1]);
    }
    return out + pairs + 1;
}

// Uses a heap of (rank, position) instead of a search per merge, so the time is O(n log n). Entries that no longer
// match the pair at their position are skipped.
Token* Encoder::merge_long(const std::uint8_t* piece, std::size_t length, Token* out) {
    if (length >= NOWHERE) throw std::length_error("a piece of text has 4 GiB or more");
    const auto push = [&](std::size_t at, MergeKey merge) {
        if (!merge) return;
        heap_.push_back(std::uint64_t{merge.rank()} << 32 | at);
        std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    };
    symbols_.resize(length);
    heap_.clear();
    for (std::size_t i = 0; i < length; ++i) {
        symbols_[i] = {bytes_[piece[i]], static_cast<std::uint32_t>(i) - 1, static_cast<std::uint32_t>(i) + 1};
    }
    symbols_.back().next = NOWHERE;
    for (std::size_t i = 0; i + 1 < length; ++i) {
        const MergeKey merge = merges_.of_bytes(piece[i], piece[i + 1]);
        if (merge) heap_.push_back(std::uint64_t{merge.rank()} << 32 | i);
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    while (!heap_.empty()) {
        did(1);
        std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
        const std::uint64_t top = heap_.back();
        heap_.pop_back();
        const auto at = static_cast<std::uint32_t>(top);
        Symbol& left = symbols_[at];
        if (left.token == GONE || left.next == NOWHERE) continue;
        Symbol& right = symbols_[left.next];
        const MergeKey merge = merges_.find(left.token, right.token);
        if (!merge || merge.rank() != top >> 32) continue;
        left.token = merge.made();
        left.next = right.next;
        right.token = GONE;
        if (left.previous != NOWHERE) push(left.previous, merges_.find(symbols_[left.previous].token, left.token));
        if (left.next != NOWHERE) {
            symbols_[left.next].previous = at;
            push(at, merges_.find(left.token, symbols_[left.next].token));
        }
    }
    for (std::uint32_t at = 0; at != NOWHERE; at = symbols_[at].next) *out++ = symbols_[at].token;
    if (length > KEPT) {
        std::vector<Symbol>().swap(symbols_);
        std::vector<std::uint64_t>().swap(heap_);
    }
    return out;
}

}  // namespace bloomery::bpe
