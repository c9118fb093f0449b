// Python module data_prep.corpus._text. Its signatures and documentation are in _text.pyi.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "documents.hpp"
#include "measure.hpp"
#include "minhash.hpp"
#include "unicode_table.hpp"

namespace py = pybind11;

namespace bloomery::text {

void define_lines(py::module_& module);    // lines_module.cpp
void define_shingles(py::module_& module);  // shingles_module.cpp
void define_content(py::module_& module);  // content_module.cpp

namespace {

using Flags = py::array_t<std::uint8_t, py::array::c_style>;

void check_flags(const Documents& documents, const Flags& unspaced) {
    if (unspaced.ndim() != 1 || static_cast<std::size_t>(unspaced.size()) != documents.size()) {
        throw std::invalid_argument("unspaced must be 1-D with one entry a document: " +
                                    std::to_string(documents.size()) + " documents, " +
                                    std::to_string(unspaced.size()) + " entries");
    }
}

std::size_t positive(std::int64_t value, const char* name) {
    if (value < 1) throw std::invalid_argument(std::string(name) + " must be at least 1, not " + std::to_string(value));
    return static_cast<std::size_t>(value);
}

using Numbers = py::array_t<std::int32_t, py::array::c_style>;
using ListEntries = std::tuple<std::vector<std::string>, std::vector<std::string>, bool>;

// The word lists of several languages. This is a struct because pybind11 would copy a vector into a Python list.
struct ListTable {
    std::vector<WordLists> lists;
};

ListTable make_lists(const std::vector<ListEntries>& lists) {
    ListTable made;
    for (const auto& [stop, flagged, unspaced] : lists) {
        const auto set_of = [spaceless = unspaced](const std::vector<std::string>& entries) {
            std::vector<Bytes> views;
            for (const std::string& entry : entries) {
                const auto* const begin = reinterpret_cast<const std::uint8_t*>(entry.data());
                views.push_back({begin, begin + entry.size()});
            }
            return WordSet(views, spaceless);
        };
        made.lists.push_back({set_of(stop), set_of(flagged)});
    }
    return made;
}

// Returns the number of each document's word lists, or nullptr if no lists are given. Throws for invalid numbers.
const std::int32_t* checked_numbers(const Documents& documents, const ListTable* table,
                                    const std::optional<Numbers>& given) {
    if (!table != !given) throw std::invalid_argument("lists and numbers go together: give both or neither");
    if (!table) return nullptr;
    const Numbers& numbers = *given;
    const auto lists = static_cast<std::int64_t>(table->lists.size());
    if (numbers.ndim() != 1 || static_cast<std::size_t>(numbers.size()) != documents.size()) {
        throw std::invalid_argument("numbers must be 1-D with one entry a document");
    }
    for (py::ssize_t i = 0; i < numbers.size(); ++i) {
        const std::int32_t number = numbers.data()[i];
        if (number < -1 || number >= lists) {
            throw std::invalid_argument("numbers[" + std::to_string(i) + "] = " + std::to_string(number) +
                                        " must lie between -1 and " + std::to_string(lists - 1));
        }
    }
    return numbers.data();
}

py::dict measure(const py::object& data, const Documents::Offsets& offsets, const Flags& unspaced,
                 const ListTable* lists, const std::optional<Numbers>& numbers) {
    const Documents documents(data, offsets);
    check_flags(documents, unspaced);
    const std::int32_t* const number = checked_numbers(documents, lists, numbers);
    const std::size_t count = documents.size();
    py::dict result;
    py::array_t<double> scripts_column({static_cast<py::ssize_t>(count), static_cast<py::ssize_t>(SCRIPTS)});
    double* const scripts = scripts_column.mutable_data();
#define BLOOMERY_COLUMN(type, name)                           \
    py::array_t<type> name##_column(static_cast<py::ssize_t>(count)); \
    type* const name = name##_column.mutable_data();          \
    result[#name] = name##_column;
    BLOOMERY_MEASURES(BLOOMERY_COLUMN)
#undef BLOOMERY_COLUMN
    const std::uint8_t* flags = unspaced.data();
    {
        const py::gil_scoped_release release;
        Measurer measurer;
        for (std::size_t i = 0; i < count; ++i) {
            const bool any = number && number[i] >= 0;
            const WordLists* const listed = any ? &lists->lists[static_cast<std::size_t>(number[i])] : nullptr;
            const Measures measures = measurer.measure(documents[i], flags[i] != 0, listed);
            std::copy(measures.scripts.begin(), measures.scripts.end(), scripts + i * SCRIPTS);
#define BLOOMERY_STORE(type, name) name[i] = measures.name;
            BLOOMERY_MEASURES(BLOOMERY_STORE)
#undef BLOOMERY_STORE
        }
    }
    result["scripts"] = scripts_column;
    return result;
}

py::array_t<std::uint64_t> minhash(const py::object& data, const Documents::Offsets& offsets, const Flags& unspaced,
                                   std::int64_t ngram_words, std::int64_t ngram_characters, std::int64_t bands,
                                   std::int64_t rows, std::uint64_t seed) {
    constexpr std::int64_t MAX_PERMUTATIONS = 1 << 16;
    const Documents documents(data, offsets);
    check_flags(documents, unspaced);
    const ShingleSize size{positive(ngram_words, "ngram_words"), positive(ngram_characters, "ngram_characters")};
    positive(bands, "bands");
    positive(rows, "rows");
    if (bands > MAX_PERMUTATIONS / rows) {
        throw std::invalid_argument("bands x rows must be at most " + std::to_string(MAX_PERMUTATIONS));
    }
    const std::size_t count = documents.size(), width = static_cast<std::size_t>(bands);
    py::array_t<std::uint64_t> result({static_cast<py::ssize_t>(count), static_cast<py::ssize_t>(width)});
    std::uint64_t* const keys = result.mutable_data();
    const std::uint8_t* flags = unspaced.data();
    {
        const py::gil_scoped_release release;
        Shingler shingler(size);
        MinHasher hasher(width, static_cast<std::size_t>(rows), seed);
        for (std::size_t i = 0; i < count; ++i) {
            hasher.band_keys(shingler.shingles(documents[i], flags[i] != 0), keys + i * width);
        }
    }
    return result;
}

py::tuple shingles(const py::object& data, const Documents::Offsets& offsets, const Flags& unspaced,
                   std::int64_t ngram_words, std::int64_t ngram_characters) {
    const Documents documents(data, offsets);
    check_flags(documents, unspaced);
    const ShingleSize size{positive(ngram_words, "ngram_words"), positive(ngram_characters, "ngram_characters")};
    const std::size_t count = documents.size();
    py::array_t<std::int64_t> bounds(static_cast<py::ssize_t>(count + 1));
    std::int64_t* const bound = bounds.mutable_data();
    auto values = std::make_unique<std::vector<std::uint64_t>>();
    const std::uint8_t* flags = unspaced.data();
    {
        const py::gil_scoped_release release;
        Shingler shingler(size);
        bound[0] = 0;
        for (std::size_t i = 0; i < count; ++i) {
            std::vector<std::uint64_t>& found = shingler.shingles(documents[i], flags[i] != 0);
            std::sort(found.begin(), found.end());
            values->insert(values->end(), found.begin(), std::unique(found.begin(), found.end()));
            bound[i + 1] = static_cast<std::int64_t>(values->size());
        }
    }
    const auto length = static_cast<py::ssize_t>(values->size());
    const std::uint64_t* const first = values->data();
    const py::capsule owner(values.get(),
                            [](void* pointer) { delete static_cast<std::vector<std::uint64_t>*>(pointer); });
    values.release();
    return py::make_tuple(py::array_t<std::uint64_t>(length, first, owner), bounds);
}

}  // namespace
}  // namespace bloomery::text

PYBIND11_MODULE(_text, module) {
    using namespace bloomery::text;
    module.doc() = "Compiled text kernel: measures and MinHash of batches of documents (see _text.pyi).";
    module.attr("UNICODE_VERSION") = table::UNICODE_VERSION;
    Unicode::instance();  // expands the tables once, at import
    py::tuple scripts(SCRIPTS);
    for (std::size_t i = 0; i < SCRIPTS; ++i) scripts[i] = table::SCRIPT_NAMES[i];
    module.attr("SCRIPTS") = scripts;
    module.attr("SCOPE_CHARACTERS") = Measurer::SCOPE_CHARACTERS;
    py::class_<ListTable>(module, "WordLists").def(py::init(&make_lists), py::arg("lists"));
    module.def("measure", &measure, py::arg("data"), py::arg("offsets"), py::arg("unspaced"),
               py::arg("lists") = py::none(), py::arg("numbers") = py::none());
    module.def("minhash", &minhash, py::arg("data"), py::arg("offsets"), py::arg("unspaced"), py::arg("ngram_words"),
               py::arg("ngram_characters"), py::arg("bands"), py::arg("rows"), py::arg("seed"));
    module.def("shingles", &shingles, py::arg("data"), py::arg("offsets"), py::arg("unspaced"), py::arg("ngram_words"),
               py::arg("ngram_characters"));
    define_lines(module);
    define_shingles(module);
    define_content(module);
}
