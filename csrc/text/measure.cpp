#include "measure.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "hash.hpp"
#include "words.hpp"

namespace bloomery::text {
namespace {

constexpr std::size_t CHARACTER_NGRAM = 10;      // ROOTS, parameters_filtering.py
constexpr std::size_t WORD_NGRAM = 5;            // ROOTS, parameters_filtering.py
constexpr std::size_t SHORT_LINE_CHARACTERS = 30;  // FineWeb
constexpr std::size_t FEW_WORDS = 3;             // C4: a line with fewer words is not prose
constexpr std::size_t PREFETCH_DISTANCE = 8;
constexpr CodePoint ELLIPSIS = 0x2026;

template <typename Part, typename Whole>
double ratio(Part part, Whole whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::size_t floor_sqrt(std::size_t n) {
    auto root = static_cast<std::size_t>(std::sqrt(static_cast<double>(n)));
    while (root * root > n) --root;
    while ((root + 1) * (root + 1) <= n) ++root;
    return root;
}

// Adds all hashes to the counter. The prefetch helps when the table of a long document exceeds the caches.
void count_all(Counter& counter, const std::vector<std::uint64_t>& hashes) {
    counter.reset(hashes.size());
    const std::size_t ahead = hashes.size() > PREFETCH_DISTANCE ? hashes.size() - PREFETCH_DISTANCE : 0;
    std::size_t i = 0;
    for (; i < ahead; ++i) {
        counter.prefetch(hashes[i + PREFETCH_DISTANCE]);
        counter.add(hashes[i]);
    }
    for (; i < hashes.size(); ++i) counter.add(hashes[i]);
}

}  // namespace

Measures Measurer::measure(Bytes document, bool unspaced, const WordLists* lists) {
    Measures measures;
    decode_utf8(document, code_points_);
    scope_ = std::min(code_points_.size(), SCOPE_CHARACTERS);
    measures.bytes = static_cast<std::int64_t>(document.size());
    measures.characters = static_cast<std::int64_t>(code_points_.size());
    measure_characters(measures);
    measure_lines(measures);
    measure_paragraphs(measures);
    measure_words(measures, unspaced, lists);
    return measures;
}

void Measurer::measure_characters(Measures& measures) {
    const Unicode& unicode = Unicode::instance();
    std::size_t special = 0, digits = 0, alphanumeric = 0, broken = 0, brackets = 0;
    std::array<std::size_t, SCRIPTS + 1> scripts{};
    Properties previous = 0;
    newlines_ = number_signs_ = ellipses_ = 0;
    std::size_t dots = 0;
    for (const CodePoint code : code_points_) {
        const Properties properties = unicode.properties(code);
        ++scripts[script_of(properties)];
        alphanumeric += (properties & WORD) != 0;
        special += (properties & SPECIAL) != 0;
        digits += (properties & DIGIT) != 0;
        // No code point can be both the first and the second character of a mojibake pair, so pairs never overlap.
        broken += code == REPLACEMENT || ((previous & MOJIBAKE) && (properties & CONTINUED));
        newlines_ += code == '\n';
        number_signs_ += code == '#';
        brackets += code == '{' || code == '}';
        dots = code == '.' ? dots + 1 : 0;
        if (code == ELLIPSIS || dots == 3) {
            ++ellipses_;
            dots = 0;
        }
        previous = properties;
    }
    const std::size_t characters = code_points_.size();
    measures.curly_brackets = static_cast<std::int64_t>(brackets);
    measures.special_ratio = ratio(special, characters);
    measures.digit_ratio = ratio(digits, characters);
    measures.alphanumeric_ratio = ratio(alphanumeric, characters);
    const std::size_t letters = characters - scripts[0];
    for (std::size_t i = 0; i < SCRIPTS; ++i) measures.scripts[i] = ratio(scripts[i + 1], letters);
    measures.replacement_ratio = ratio(broken, characters);

    hashes_.clear();
    for_each_window(code_points_.data(), scope_, CHARACTER_NGRAM,
                    [this](std::uint64_t hash) { hashes_.push_back(mix(hash)); });
    if (hashes_.empty()) return;
    count_all(counter_, hashes_);
    counter_.repeated_counts(counts_);
    const std::size_t top = std::min(floor_sqrt(counter_.distinct()), counts_.size());
    if (top < counts_.size()) {
        std::nth_element(counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(top), counts_.end(),
                         std::greater<>());
    }
    std::uint64_t repeated = 0;
    for (std::size_t i = 0; i < top; ++i) repeated += counts_[i];
    measures.character_repetition_ratio = ratio(repeated, hashes_.size());
}

void Measurer::measure_lines(Measures& measures) {
    const Unicode& unicode = Unicode::instance();
    const auto has = [&](std::size_t at, Properties set) {
        return (unicode.properties(code_points_[at]) & set) != 0;
    };
    lines_.clear();
    bool first = true;
    // `longest_line` and `mean_line_length` use all lines, also blank ones, with their white space.
    std::size_t count = 0, total = 0, longest = 0, indentation = 0;
    for (std::size_t begin = 0; begin < code_points_.size();) {
        std::size_t end = begin;
        while (end < code_points_.size() && code_points_[end] != '\n') ++end;
        const std::size_t next = end + 1;
        const std::size_t length = end - begin - (end > begin && code_points_[end - 1] == '\r');
        ++count;
        total += length;
        longest = std::max(longest, length);
        const std::size_t start = begin;
        while (begin < end && has(begin, SPACE)) ++begin;
        while (begin < end && has(end - 1, SPACE)) --end;
        if (begin < end) {
            lines_.push_back({begin, end, first, 0});
            indentation += begin - start;
        }
        first = begin == end;
        begin = next;
    }
    std::size_t shorter = 0, ended = 0, bullets = 0, duplicates = 0, copies = 0, trailing = 0;
    counter_.reset(lines_.size());
    for (Line& line : lines_) {
        const std::size_t begin = line.begin, end = line.end;
        shorter += end - begin <= SHORT_LINE_CHARACTERS;
        bullets += has(begin, BULLET);
        std::size_t last = end;
        while (last > begin && has(last - 1, CLOSER)) --last;
        ended += last > begin && has(last - 1, TERMINAL);
        trailing += code_points_[end - 1] == ELLIPSIS ||
                    (end - begin >= 3 && code_points_[end - 1] == '.' && code_points_[end - 2] == '.' &&
                     code_points_[end - 3] == '.');
        std::uint64_t hash = 0;
        for (std::size_t i = begin; i < end; ++i) hash = (hash + code_points_[i] + 1) * HASH_BASE;
        line.hash = mix(hash);
        if (counter_.add(line.hash) > 1) {
            duplicates += end - begin;
            ++copies;
        }
    }
    measures.lines = static_cast<std::int64_t>(lines_.size());
    measures.longest_line = static_cast<std::int64_t>(longest);
    measures.mean_line_length = ratio(total, count);
    measures.indentation_ratio = ratio(indentation, code_points_.size());
    measures.short_line_ratio = ratio(shorter, lines_.size());
    measures.bullet_ratio = ratio(bullets, lines_.size());
    measures.terminal_punctuation_ratio = ratio(ended, lines_.size());
    measures.duplicate_line_ratio = ratio(duplicates, code_points_.size() - newlines_);
    measures.duplicate_line_fraction = ratio(copies, lines_.size());
    measures.ellipsis_line_ratio = ratio(trailing, lines_.size());
}

void Measurer::measure_paragraphs(Measures& measures) {
    std::size_t paragraphs = 0, copies = 0, duplicates = 0;
    counter_.reset(lines_.size());
    for (std::size_t i = 0; i < lines_.size();) {
        std::uint64_t hash = 0;
        std::size_t characters = 0, lines = 0;
        do {
            hash = (hash + lines_[i].hash) * HASH_BASE;
            characters += lines_[i].end - lines_[i].begin;
            ++lines;
        } while (++i < lines_.size() && !lines_[i].first);
        ++paragraphs;
        if (counter_.add(mix(hash)) > 1) {
            ++copies;
            duplicates += characters + lines - 1;
        }
    }
    measures.paragraphs = static_cast<std::int64_t>(paragraphs);
    measures.duplicate_paragraph_fraction = ratio(copies, paragraphs);
    measures.duplicate_paragraph_ratio = ratio(duplicates, code_points_.size());
}

void Measurer::hash_windows(std::size_t length) {
    hashes_.clear();
    for_each_window(words_.data(), words_.size(), length,
                    [this](std::uint64_t hash) { hashes_.push_back(mix(hash)); });
}

// Returns the ratio of characters in all copies of the most frequent n-gram, with a space between its words. On ties,
// the first n-gram of the document is taken.
double Measurer::top_ngram_ratio(std::size_t length) {
    hash_windows(length);
    if (hashes_.empty()) return 0.0;
    count_all(counter_, hashes_);
    counter_.repeated_counts(counts_);
    const std::uint64_t most = counts_.empty() ? 1 : *std::max_element(counts_.begin(), counts_.end());
    std::size_t first = 0;
    while (counter_.count(hashes_[first]) != most) ++first;
    const std::size_t characters = letters_[first + length] - letters_[first] + length - 1;
    return ratio(characters * most, scope_);
}

// Returns the ratio of characters, without spaces, in n-grams that occurred before. After each such n-gram, the search
// continues with the word that follows it.
double Measurer::duplicate_ngram_ratio(std::size_t length) {
    hash_windows(length);
    counter_.reset(hashes_.size());
    std::size_t repeated = 0;
    for (std::size_t i = 0; i < hashes_.size();) {
        if (i + PREFETCH_DISTANCE < hashes_.size()) counter_.prefetch(hashes_[i + PREFETCH_DISTANCE]);
        if (counter_.add(hashes_[i]) > 1) {
            repeated += letters_[i + length] - letters_[i];
            i += length;
        } else {
            ++i;
        }
    }
    return ratio(repeated, scope_);
}

void Measurer::measure_words(Measures& measures, bool unspaced, const WordLists* lists) {
    const Unicode& unicode = Unicode::instance();
    std::size_t words = 0, letters = 0, alphabetic = 0;
    std::size_t line = 0, words_of_line = 0, lines_of_enough = 0;
    words_.clear();
    letters_.assign(1, 0);
    for_each_word(code_points_.data(), code_points_.size(), unspaced, [&](std::size_t begin, std::size_t end) {
        ++words;
        letters += end - begin;
        // Every word is within one line, and words and lines are both in document order.
        for (; begin >= lines_[line].end; ++line) words_of_line = 0;
        lines_of_enough += ++words_of_line == FEW_WORDS;
        bool has_letter = false;
        for (std::size_t i = begin; i < end && !has_letter; ++i) {
            has_letter = (unicode.properties(code_points_[i]) & LETTER) != 0;
        }
        alphabetic += has_letter;
        if (begin >= scope_) return;
        letters_.push_back(letters);
        words_.push_back(hash_word(code_points_.data() + begin, code_points_.data() + end));
    });
    measures.words = static_cast<std::int64_t>(words);
    measures.mean_word_length = ratio(letters, words);
    measures.alphabetic_word_ratio = ratio(alphabetic, words);
    measures.newline_ratio = ratio(newlines_, std::max<std::size_t>(words, 1));
    measures.few_word_line_ratio = ratio(lines_.size() - lines_of_enough, lines_.size());
    measures.hash_ratio = ratio(number_signs_, words);
    measures.ellipsis_ratio = ratio(ellipses_, words);
    if (lists) {
        measures.stop_word_ratio = ratio(lists->stop.covered(words_), words_.size());
        measures.flagged_word_ratio = ratio(lists->flagged.covered(words_), words_.size());
    }

    hash_windows(WORD_NGRAM);
    count_all(counter_, hashes_);
    counter_.repeated_counts(counts_);
    std::uint64_t repeated = 0;
    for (const std::uint64_t count : counts_) repeated += count;
    measures.word_repetition_ratio = ratio(repeated, hashes_.size());

    measures.top_2gram_ratio = top_ngram_ratio(2);
    measures.top_3gram_ratio = top_ngram_ratio(3);
    measures.top_4gram_ratio = top_ngram_ratio(4);
    measures.duplicate_5gram_ratio = duplicate_ngram_ratio(5);
    measures.duplicate_6gram_ratio = duplicate_ngram_ratio(6);
    measures.duplicate_7gram_ratio = duplicate_ngram_ratio(7);
    measures.duplicate_8gram_ratio = duplicate_ngram_ratio(8);
    measures.duplicate_9gram_ratio = duplicate_ngram_ratio(9);
    measures.duplicate_10gram_ratio = duplicate_ngram_ratio(10);
}

}  // namespace bloomery::text
