// Bindings of the line functions in the Python module data_prep.corpus._text.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "documents.hpp"
#include "lines.hpp"

namespace py = pybind11;

namespace bloomery::text {
namespace {

using Offsets = Documents::Offsets;
using Hashes = py::array_t<std::uint64_t, py::array::c_style>;
using Flags = py::array_t<std::uint8_t, py::array::c_style>;

// The documents of a call. Each has a LineRule, unless its flag in `untouched` is set.
struct Batch {
    Batch(const py::object& data, const Offsets& offsets, const Hashes& salts_, const Flags& untouched_,
          std::int64_t min_characters)
        : documents(data, offsets), salts(salts_), untouched(untouched_) {
        const auto count = static_cast<py::ssize_t>(documents.size());
        if (salts.ndim() != 1 || salts.size() != count || untouched.ndim() != 1 || untouched.size() != count) {
            throw std::invalid_argument("salts and untouched must be 1-D with one entry a document, " +
                                        std::to_string(count));
        }
        if (min_characters < 1) throw std::invalid_argument("min_characters must be at least 1");
        characters = static_cast<std::size_t>(min_characters);
    }
    LineRule rule(std::size_t i) const { return {salts.data()[i], characters}; }

    Documents documents;
    Hashes salts;
    Flags untouched;
    std::size_t characters;
};

template <typename Value>
py::array_t<Value> owned(std::unique_ptr<std::vector<Value>> values) {
    const auto length = static_cast<py::ssize_t>(values->size());
    const Value* const first = values->data();
    const py::capsule owner(values.get(), [](void* pointer) { delete static_cast<std::vector<Value>*>(pointer); });
    values.release();
    return py::array_t<Value>(length, first, owner);
}

py::tuple line_hashes(const py::object& data, const Offsets& offsets, const Hashes& salts, const Flags& untouched,
                      std::int64_t min_characters) {
    const Batch batch(data, offsets, salts, untouched, min_characters);
    auto hashes = std::make_unique<std::vector<std::uint64_t>>();
    auto contents = std::make_unique<std::vector<std::uint32_t>>();
    {
        const std::uint8_t* const skip = batch.untouched.data();
        const py::gil_scoped_release release;
        for (std::size_t i = 0; i < batch.documents.size(); ++i) {
            if (skip[i]) continue;
            const std::uint64_t content = add_line_hashes(batch.documents[i], batch.rule(i), *hashes);
            contents->resize(hashes->size(), static_cast<std::uint32_t>(content >> 32));
        }
    }
    return py::make_tuple(owned(std::move(hashes)), owned(std::move(contents)));
}

py::tuple remove_lines(const py::object& data, const Offsets& offsets, const Hashes& salts, const Flags& untouched,
                       std::int64_t min_characters, const Hashes& repeated) {
    const Batch batch(data, offsets, salts, untouched, min_characters);
    if (repeated.ndim() != 1) throw std::invalid_argument("repeated must be 1-D");
    const std::uint64_t* const first = repeated.data();
    const std::uint64_t* const last = first + repeated.size();
    if (!std::is_sorted(first, last)) throw std::invalid_argument("repeated must be sorted");
    const std::size_t count = batch.documents.size();
    py::array_t<std::int64_t> bounds(static_cast<py::ssize_t>(count + 1));
    py::array_t<std::int64_t> removed(static_cast<py::ssize_t>(count));
    auto text = std::make_unique<std::vector<std::uint8_t>>();
    {
        std::int64_t* const bound = bounds.mutable_data();
        std::int64_t* const went = removed.mutable_data();
        const std::uint8_t* const skip = batch.untouched.data();
        const py::gil_scoped_release release;
        bound[0] = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const Bytes document = batch.documents[i];
            went[i] = 0;
            if (skip[i]) {
                text->insert(text->end(), document.begin, document.end);
            } else {
                went[i] = static_cast<std::int64_t>(add_without_lines(document, batch.rule(i), first, last, *text));
            }
            bound[i + 1] = static_cast<std::int64_t>(text->size());
        }
    }
    return py::make_tuple(owned(std::move(text)), bounds, removed);
}

}  // namespace

void define_lines(py::module_& module) {
    module.def("line_hashes", &line_hashes, py::arg("data"), py::arg("offsets"), py::arg("salts"),
               py::arg("untouched"), py::arg("min_characters"));
    module.def("remove_lines", &remove_lines, py::arg("data"), py::arg("offsets"), py::arg("salts"),
               py::arg("untouched"), py::arg("min_characters"), py::arg("repeated"));
}

}  // namespace bloomery::text
