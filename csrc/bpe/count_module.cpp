// Python bindings of the splitter and the counter, in the module data_prep.tokenizer._bpe.
#include <algorithm>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "../text/documents.hpp"
#include "count.hpp"
#include "preset.hpp"
#include "split.hpp"

namespace py = pybind11;

namespace bloomery::bpe {
namespace {

using Integers = py::array_t<std::int64_t, py::array::c_style>;

constexpr std::int64_t POLL_PIECES = 1 << 20;

template <typename Value>
py::array_t<std::int64_t> integers(std::size_t count, Value value) {
    py::array_t<std::int64_t> made(static_cast<py::ssize_t>(count));
    std::generate_n(made.mutable_data(), count, [&, i = std::size_t{0}]() mutable { return value(i++); });
    return made;
}

py::array_t<std::int64_t> piece_ends(const py::buffer& text, const std::string& preset, bool split_digits) {
    const py::buffer_info info = text.request();
    const auto* const begin = static_cast<const std::uint8_t*>(info.ptr);
    std::vector<std::int64_t> ends;
    split(begin, begin + info.size * info.itemsize, {preset_named(preset), split_digits},
          [&](const std::uint8_t*, const std::uint8_t* end) { ends.push_back(end - begin); });
    return integers(ends.size(), [&](std::size_t i) { return ends[i]; });
}

class PyCounter {
  public:
    PyCounter(const std::string& preset, bool split_digits) : rules_{preset_named(preset), split_digits} {}

    void add(const py::object& data, const Documents::Offsets& offsets, const Integers& languages) {
        const Documents documents(data, offsets);
        if (languages.ndim() != 1 || static_cast<std::size_t>(languages.size()) != documents.size()) {
            throw std::invalid_argument("languages must be 1-D with one entry a document");
        }
        const std::int64_t* const language = languages.data();
        for (std::size_t i = 0; i < documents.size(); ++i) {
            counter(language[i]);
            if (drained_[static_cast<std::size_t>(language[i])] != 0) {
                throw std::invalid_argument("no text can be added to a language that is being drained");
            }
        }
        const py::gil_scoped_release release;
        for (std::size_t i = 0; i < documents.size(); ++i) {
            PieceCounter& counts = counters_[static_cast<std::size_t>(language[i])];
            split(documents[i].begin, documents[i].end, rules_, [&](const std::uint8_t* begin, const std::uint8_t* end) {
                counts.add(begin, end);
                if (++pieces_ % POLL_PIECES == 0) poll();
            });
        }
    }

    py::tuple drain(std::int64_t language, std::int64_t pieces) {
        PieceCounter& counts = counter(language);
        if (pieces < 1) throw std::invalid_argument("pieces must be at least 1");
        std::size_t& next = drained_[static_cast<std::size_t>(language)];
        if (next == 0) {
            const py::gil_scoped_release release;
            counts.sort();
        }
        const std::size_t first = next;
        const std::size_t count = std::min(counts.size() - first, static_cast<std::size_t>(pieces));
        std::int64_t total = 0;
        py::array_t<std::int64_t> offsets(static_cast<py::ssize_t>(count + 1));
        for (std::size_t i = 0; i < count; ++i) {
            offsets.mutable_data()[i] = total;
            total += static_cast<std::int64_t>(counts.piece(first + i).size());
        }
        offsets.mutable_data()[count] = total;
        py::array_t<std::uint8_t> bytes(static_cast<py::ssize_t>(total));
        std::uint8_t* to = bytes.mutable_data();
        for (std::size_t i = 0; i < count; ++i) {
            const Bytes piece = counts.piece(first + i);
            to = std::copy(piece.begin, piece.end, to);
        }
        const auto occurrences = integers(count, [&](std::size_t i) { return counts.count(first + i); });
        next += count;
        if (next == counts.size()) {
            counts.clear();
            next = 0;
        }
        return py::make_tuple(bytes, offsets, occurrences);
    }

    std::size_t memory_bytes() const {
        std::size_t sum = 0;
        for (const PieceCounter& counts : counters_) sum += counts.memory_bytes();
        return sum;
    }

    py::array_t<std::int64_t> totals() const {
        py::array_t<std::int64_t> made({static_cast<py::ssize_t>(counters_.size()), py::ssize_t{3}});
        std::int64_t* to = made.mutable_data();
        for (const PieceCounter& counts : counters_) {
            *to++ = counts.occurrences();
            *to++ = counts.text_bytes();
            *to++ = counts.cut();
        }
        return made;
    }

  private:
    PieceCounter& counter(std::int64_t language) {
        if (language < 0 || language > UINT16_MAX) {
            throw std::invalid_argument("languages must lie between 0 and 65,535");
        }
        const auto number = static_cast<std::size_t>(language);
        while (counters_.size() <= number) counters_.emplace_back();
        drained_.resize(counters_.size(), 0);
        return counters_[number];
    }

    static void poll() {
        const py::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();  // Ctrl-C
    }

    SplitRules rules_;
    std::deque<PieceCounter> counters_;  // by language number
    std::vector<std::size_t> drained_;   // by language number: pieces that `drain` has returned so far
    std::int64_t pieces_ = 0;
};

}  // namespace

void define_count(py::module_& module) {
    module.attr("MAX_PIECE_BYTES") = MAX_PIECE_BYTES;
    module.def("piece_ends", &piece_ends, py::arg("text"), py::arg("preset"), py::arg("split_digits"));
    py::class_<PyCounter>(module, "Counter")
        .def(py::init<const std::string&, bool>(), py::arg("preset"), py::arg("split_digits"))
        .def("add", &PyCounter::add, py::arg("data"), py::arg("offsets"), py::arg("languages"))
        .def("drain", &PyCounter::drain, py::arg("language"), py::arg("pieces"))
        .def("totals", &PyCounter::totals)
        .def_property_readonly("memory_bytes", &PyCounter::memory_bytes);
}

}  // namespace bloomery::bpe
