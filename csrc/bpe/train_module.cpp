// Python bindings of the trainer, in the module data_prep.tokenizer._bpe.
#include <bitset>
#include <memory>

#include "../text/documents.hpp"
#include "trainer.hpp"

namespace py = pybind11;

namespace bloomery::bpe {
namespace {

using Counts = py::array_t<std::int64_t, py::array::c_style>;
using Order = py::array_t<std::uint8_t, py::array::c_style>;

constexpr std::int64_t MAX_MERGES = 1 << 30;

Settings settings_from(const Order& symbol_order, std::int64_t min_frequency, std::int64_t max_token_bytes) {
    Settings settings{{}, min_frequency, max_token_bytes};
    if (symbol_order.ndim() != 1 || symbol_order.size() != 256) {
        throw std::invalid_argument("symbol_order must be 1-D with 256 entries");
    }
    std::bitset<256> taken;
    for (std::size_t byte = 0; byte < 256; ++byte) {
        settings.symbol_order[byte] = symbol_order.data()[byte];
        taken.set(symbol_order.data()[byte]);
    }
    if (!taken.all()) throw std::invalid_argument("symbol_order must be a permutation of 0..255");
    if (min_frequency < 0) throw std::invalid_argument("min_frequency must not be negative");
    if (max_token_bytes < 1) throw std::invalid_argument("max_token_bytes must be at least 1");
    return settings;
}

class PyTrainer {
  public:
    PyTrainer(const Order& symbol_order, std::int64_t min_frequency, std::int64_t max_token_bytes)
        : trainer_(new Trainer(settings_from(symbol_order, min_frequency, max_token_bytes))) {}

    void add(const py::object& pieces, const Documents::Offsets& offsets, const Counts& counts) {
        Trainer& trainer = unused();
        const Documents documents(pieces, offsets);
        if (counts.ndim() != 1 || static_cast<std::size_t>(counts.size()) != documents.size()) {
            throw std::invalid_argument("counts must be 1-D with one entry a piece");
        }
        const std::int64_t* const count = counts.data();
        const py::gil_scoped_release release;
        for (std::size_t i = 0; i < documents.size(); ++i) trainer.add(documents[i].begin, documents[i].end, count[i]);
    }

    py::array_t<std::int32_t> train(std::int64_t merges, const py::object& progress) {
        unused();
        if (merges < 0 || merges > MAX_MERGES) throw std::invalid_argument("merges must lie between 0 and 2^30");
        const std::unique_ptr<Trainer> trainer = std::move(trainer_);
        std::vector<std::pair<Token, Token>> made;
        {
            const py::gil_scoped_release release;
            made = trainer->train(merges, [&](std::size_t done) {
                const py::gil_scoped_acquire acquire;
                if (PyErr_CheckSignals() != 0) throw py::error_already_set();  // Ctrl-C
                if (!progress.is_none()) progress(done);
            });
        }
        py::array_t<std::int32_t> result({static_cast<py::ssize_t>(made.size()), py::ssize_t{2}});
        std::int32_t* to = result.mutable_data();
        for (const auto& [left, right] : made) {
            *to++ = left;
            *to++ = right;
        }
        return result;
    }

  private:
    Trainer& unused() const {
        if (!trainer_) throw std::invalid_argument("this trainer has already trained and holds no pieces any more");
        return *trainer_;
    }

    std::unique_ptr<Trainer> trainer_;
};

py::array_t<std::int32_t> train(const py::object& pieces, const Documents::Offsets& offsets, const Counts& counts,
                                const Order& symbol_order, std::int64_t merges, std::int64_t min_frequency,
                                std::int64_t max_token_bytes) {
    PyTrainer trainer(symbol_order, min_frequency, max_token_bytes);
    trainer.add(pieces, offsets, counts);
    return trainer.train(merges, py::none());
}

}  // namespace

void define_train(py::module_& module) {
    py::class_<PyTrainer>(module, "Trainer")
        .def(py::init<const Order&, std::int64_t, std::int64_t>(), py::arg("symbol_order"), py::arg("min_frequency"),
             py::arg("max_token_bytes"))
        .def("add", &PyTrainer::add, py::arg("pieces"), py::arg("offsets"), py::arg("counts"))
        .def("train", &PyTrainer::train, py::arg("merges"), py::arg("progress") = py::none());
    module.def("train", &train, py::arg("pieces"), py::arg("offsets"), py::arg("counts"), py::arg("symbol_order"),
               py::arg("merges"), py::arg("min_frequency"), py::arg("max_token_bytes"));
}

}  // namespace bloomery::bpe
