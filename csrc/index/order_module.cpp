// Python bindings (module data_prep.index._index) of document groups, document and sample orders, sample starts, and
// the check that each epoch reads every document once.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "deal.hpp"
#include "epochs.hpp"
#include "order.hpp"
#include "walk.hpp"

namespace py = pybind11;

namespace bloomery::index {
namespace {

template <typename Number>
using Array = py::array_t<Number, py::array::c_style>;
using Rows = Array<std::uint64_t>;

// No call below takes more than about two seconds, so Python can handle Ctrl-C between calls.

void check(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

template <typename Number>
const Number* column(const Array<Number>& values, py::ssize_t size) {
    check(values.ndim() == 1 && values.size() == size, "columns must be 1-D and equally long");
    return values.data();
}

template <typename Number>
Array<Number> copied(const std::vector<Number>& values, std::vector<py::ssize_t> shape) {
    Array<Number> result(std::move(shape));
    std::copy(values.begin(), values.end(), result.mutable_data());
    return result;
}

void deal_add(Deal& deal, std::uint64_t first, const Array<std::int32_t>& lengths, const Array<std::int32_t>& languages,
              const Array<std::int32_t>& sources, const Array<std::uint64_t>& split_keys,
              const Array<std::int32_t>& pairs, std::uint64_t held_out_below, bool all_held_out) {
    check(pairs.ndim() == 2, "pairs must be 2-D");
    const auto size = lengths.size();
    const Keys keys{column(languages, size),
                    column(sources, size),
                    column(split_keys, size),
                    held_out_below,
                    all_held_out,
                    pairs.data(),
                    static_cast<std::size_t>(pairs.shape(0)),
                    static_cast<std::size_t>(pairs.shape(1))};
    const std::int32_t* tokens = column(lengths, size);
    const py::gil_scoped_release release;
    deal.add(first, tokens, static_cast<std::size_t>(size), keys);
}

Array<std::int64_t> deal_groups(const Deal& deal) {
    std::vector<std::int64_t> values;
    for (const Group& group : deal.groups()) {
        for (const auto value : {group.documents, group.tokens, group.longest}) {
            values.push_back(static_cast<std::int64_t>(value));
        }
    }
    return copied(values, {static_cast<py::ssize_t>(deal.groups().size()), 3});
}

Rows deal_take(Deal& deal, const std::vector<std::size_t>& groups) {
    std::uint64_t total = 0;
    for (const std::size_t group : groups) total += deal.groups().at(group).documents;
    Rows result(static_cast<py::ssize_t>(total));
    std::uint64_t* out = result.mutable_data();
    const py::gil_scoped_release release;
    for (const std::size_t group : groups) {
        deal.take(group, out);
        out += deal.groups()[group].documents;
    }
    return result;
}

// Keeps the array of rows alive as long as the order that reads it exists.
struct Documents {
    Documents(Rows given, std::uint64_t key, std::uint64_t epoch, std::size_t band)
        : rows(std::move(given)), order(rows.data(), static_cast<std::size_t>(rows.size()), key, epoch, band) {
        check(rows.ndim() == 1 && rows.size() > 0, "rows must be 1-D with at least one");
        check(band > 0, "band must be positive");
    }

    Rows take(std::size_t count, std::uint64_t wanted) {
        Rows result(static_cast<py::ssize_t>(count));
        std::uint64_t* const out = result.mutable_data();
        const py::gil_scoped_release release;
        order.take(out, count, wanted);
        return result;
    }

    Rows rows;
    EpochOrder order;
};

std::uint64_t row_place(const Rows& rows, std::uint64_t key, std::uint64_t epoch, std::uint64_t token) {
    check(rows.ndim() == 1 && rows.size() > 0, "rows must be 1-D with at least one");
    const py::gil_scoped_release release;
    return place_of(rows.data(), static_cast<std::size_t>(rows.size()), key, epoch, token);
}

SampleOrder sample_order(std::uint64_t tokens, std::uint64_t sequence_length, std::uint64_t key, std::uint64_t epoch,
                         std::uint64_t block) {
    check(tokens > 0 && sequence_length > 0 && block > 0, "tokens, sequence_length and block must be positive");
    return {tokens, sequence_length, key, epoch, block};
}

Rows sample_take(SampleOrder& order, std::size_t count) {
    Rows result(static_cast<py::ssize_t>(count));
    std::uint64_t* const out = result.mutable_data();
    const py::gil_scoped_release release;
    order.take(out, count);
    return result;
}

SampleWalk sample_walk(std::int64_t sequence_length, std::int64_t samples, std::int64_t position, std::int64_t token) {
    check(sequence_length > 0 && samples >= 0 && position >= 0 && token >= 0, "numbers must not be negative");
    return {sequence_length, samples, position, token};
}

template <typename Number>
py::array advanced(SampleWalk& walk, const Rows& rows) {
    std::vector<Number> starts;
    {
        const py::gil_scoped_release release;
        walk.advance(rows.data(), static_cast<std::size_t>(rows.size()), starts);
    }
    return copied(starts, {static_cast<py::ssize_t>(starts.size() / 2), 2});
}

py::array walk_advance(SampleWalk& walk, const Rows& rows, bool wide) {
    return wide ? advanced<std::int64_t>(walk, rows) : advanced<std::uint32_t>(walk, rows);
}

template <typename Number>
py::ssize_t check_advance(EpochCheck& epochs, const Array<Number>& numbers) {
    const auto size = static_cast<std::size_t>(numbers.size());
    const Number* const begin = numbers.data();
    const py::gil_scoped_release release;
    const std::size_t bad = epochs.advance(begin, size);
    return bad == size ? -1 : static_cast<py::ssize_t>(bad);
}

}  // namespace

void define_order(py::module_& module) {
    py::class_<Deal>(module, "Deal")
        .def(py::init<>())
        .def("add", &deal_add, py::arg("first"), py::arg("lengths"), py::arg("languages"), py::arg("sources"),
             py::arg("split_keys"), py::arg("pairs"), py::arg("held_out_below"), py::arg("all_held_out"))
        .def("groups", &deal_groups)
        .def("take", &deal_take, py::arg("groups"));
    py::class_<Documents>(module, "EpochOrder")
        .def(py::init<Rows, std::uint64_t, std::uint64_t, std::size_t>(), py::arg("rows"), py::arg("key"),
             py::arg("epoch"), py::arg("band"))
        .def("take", &Documents::take, py::arg("count"), py::arg("wanted"));
    py::class_<SampleOrder>(module, "SampleOrder")
        .def(py::init(&sample_order), py::arg("tokens"), py::arg("sequence_length"), py::arg("key"), py::arg("epoch"),
             py::arg("block"))
        .def("take", &sample_take, py::arg("count"));
    module.def("place_of", &row_place, py::arg("rows"), py::arg("key"), py::arg("epoch"), py::arg("token"));
    py::class_<SampleWalk>(module, "SampleWalk")
        .def(py::init(&sample_walk), py::arg("sequence_length"), py::arg("samples"), py::arg("position"),
             py::arg("token"))
        .def("advance", &walk_advance, py::arg("rows"), py::arg("wide"));
    py::class_<EpochCheck>(module, "EpochCheck")
        .def(py::init([](std::uint64_t documents, std::uint64_t unique) {
                 check(unique > 0, "unique must be positive");
                 return EpochCheck(documents, unique);
             }),
             py::arg("documents"), py::arg("unique"))
        .def("advance", &check_advance<std::uint32_t>, py::arg("numbers").noconvert())
        .def("advance", &check_advance<std::int64_t>, py::arg("numbers").noconvert())
        .def("members", [](const EpochCheck& epochs) {
            return copied(epochs.members(), {static_cast<py::ssize_t>(epochs.members().size())});
        });
}

}  // namespace bloomery::index
