// Computes all statistics of a document that filters use. The filters' thresholds are applied elsewhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "counter.hpp"
#include "unicode.hpp"
#include "unicode_table.hpp"
#include "word_set.hpp"

namespace bloomery::text {

// List of X(type, name). The names are the keys of the Python result, in this order. README.md defines each measure.
#define BLOOMERY_MEASURES(X)                \
    X(std::int64_t, characters)             \
    X(std::int64_t, bytes)                  \
    X(std::int64_t, words)                  \
    X(double, mean_word_length)             \
    X(std::int64_t, lines)                  \
    X(double, character_repetition_ratio)   \
    X(double, word_repetition_ratio)        \
    X(double, special_ratio)                \
    X(double, digit_ratio)                  \
    X(double, alphabetic_word_ratio)        \
    X(double, short_line_ratio)             \
    X(double, duplicate_line_ratio)         \
    X(double, terminal_punctuation_ratio)   \
    X(double, newline_ratio)                \
    X(double, bullet_ratio)                 \
    X(double, replacement_ratio)            \
    X(std::int64_t, paragraphs)             \
    X(double, duplicate_line_fraction)      \
    X(double, duplicate_paragraph_fraction) \
    X(double, duplicate_paragraph_ratio)    \
    X(double, top_2gram_ratio)              \
    X(double, top_3gram_ratio)              \
    X(double, top_4gram_ratio)              \
    X(double, duplicate_5gram_ratio)        \
    X(double, duplicate_6gram_ratio)        \
    X(double, duplicate_7gram_ratio)        \
    X(double, duplicate_8gram_ratio)        \
    X(double, duplicate_9gram_ratio)        \
    X(double, duplicate_10gram_ratio)       \
    X(double, hash_ratio)                   \
    X(double, ellipsis_ratio)               \
    X(double, ellipsis_line_ratio)          \
    X(double, few_word_line_ratio)          \
    X(std::int64_t, curly_brackets)         \
    X(std::int64_t, longest_line)           \
    X(double, mean_line_length)             \
    X(double, indentation_ratio)            \
    X(double, alphanumeric_ratio)           \
    X(double, stop_word_ratio)              \
    X(double, flagged_word_ratio)

inline constexpr std::size_t SCRIPTS = std::size(table::SCRIPT_NAMES);

// Word lists of a language.
struct WordLists {
    WordSet stop, flagged;
};

struct Measures {
#define BLOOMERY_FIELD(type, name) type name = 0;
    BLOOMERY_MEASURES(BLOOMERY_FIELD)
#undef BLOOMERY_FIELD
    std::array<double, SCRIPTS> scripts{};  // share of each script of SCRIPT_NAMES in the letters that have a script
};

// Measures documents. The object holds scratch memory, so use one object per thread.
class Measurer {
  public:
    // Repetition and listed words are measured in this many characters from the start of a document. This limit bounds
    // the memory. The default of corpus.ingest.max_document_bytes removes longer documents before they are measured.
    static constexpr std::size_t SCOPE_CHARACTERS = std::size_t{1} << 23;

    // If `lists` is null, both ratios of listed words are 0.
    Measures measure(Bytes document, bool unspaced, const WordLists* lists);

  private:
    void measure_characters(Measures& measures);
    void measure_lines(Measures& measures);
    void measure_paragraphs(Measures& measures);
    void measure_words(Measures& measures, bool unspaced, const WordLists* lists);
    void hash_windows(std::size_t length);
    double top_ngram_ratio(std::size_t length);
    double duplicate_ngram_ratio(std::size_t length);

    // A line without leading and trailing white space. `first` is true if the line starts a paragraph, that is, at the
    // start of the document or after a blank line.
    struct Line {
        std::size_t begin, end;
        bool first;
        std::uint64_t hash;
    };

    CodePoints code_points_;
    std::size_t scope_ = 0;              // number of characters in which repetition is measured
    std::vector<std::uint64_t> words_;   // hash of each word that begins in these characters
    std::vector<std::size_t> letters_;   // characters of all words before word i; one more entry than words
    std::vector<std::uint64_t> hashes_;  // hash of each window
    std::vector<std::uint64_t> counts_;
    std::vector<Line> lines_;
    Counter counter_;
    std::size_t newlines_ = 0;
    std::size_t number_signs_ = 0;
    std::size_t ellipses_ = 0;
};

}  // namespace bloomery::text
