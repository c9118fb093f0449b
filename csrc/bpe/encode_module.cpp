// Python bindings of the encoder, in the module data_prep.tokenizer._bpe.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "../text/documents.hpp"
#include "encode.hpp"
#include "preset.hpp"

namespace py = pybind11;

namespace bloomery::bpe {
namespace {

using Ids = py::array_t<Token, py::array::c_style>;

void poll() {
    const py::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();  // Ctrl-C
}

std::array<Token, 256> byte_tokens(const Ids& bytes) {
    if (bytes.ndim() != 1 || bytes.size() != 256) throw std::invalid_argument("bytes must be 1-D with 256 entries");
    std::array<Token, 256> made{};
    std::copy(bytes.data(), bytes.data() + 256, made.begin());
    if (*std::min_element(made.begin(), made.end()) < 0) throw std::invalid_argument("a token must not be negative");
    return made;
}

std::vector<Merge> merge_list(const Ids& merges) {
    if (merges.ndim() != 2 || merges.shape(1) != 3) throw std::invalid_argument("merges must have the shape (m, 3)");
    std::vector<Merge> made(static_cast<std::size_t>(merges.shape(0)));
    const Token* from = merges.data();
    for (Merge& merge : made) {
        merge = {from[0], from[1], from[2]};
        if (std::min({from[0], from[1], from[2]}) < 0) throw std::invalid_argument("a token must not be negative");
        from += 3;
    }
    return made;
}

struct Free {
    void operator()(Token* memory) const { std::free(memory); }
};

class PyEncoder {
  public:
    PyEncoder(const Ids& bytes, const Ids& merges, const std::string& preset, bool split_digits)
        : encoder_(byte_tokens(bytes), merge_list(merges), {preset_named(preset), split_digits}, poll) {}

    py::tuple encode(const py::object& data, const Documents::Offsets& offsets, std::int64_t end) {
        const Documents documents(data, offsets);
        if (end < -1 || end > INT32_MAX) throw std::invalid_argument("end must be a token, or -1 for none");
        const std::size_t count = documents.size();
        py::array_t<std::int64_t> lengths(static_cast<py::ssize_t>(count));
        std::int64_t* const length = lengths.mutable_data();
        std::unique_ptr<Token, Free> tokens;
        std::size_t total = 0;
        {
            const py::gil_scoped_release release;
            const std::lock_guard<std::mutex> lock(mutex_);
            const std::size_t bytes = count ? static_cast<std::size_t>(documents[count - 1].end - documents[0].begin) : 0;
            // Reserve one token per byte, the maximum. Memory that holds no token is never touched.
            tokens.reset(static_cast<Token*>(std::malloc((bytes + count + 1) * sizeof(Token))));
            if (!tokens) throw std::bad_alloc();
            Token* to = tokens.get();
            for (std::size_t i = 0; i < count; ++i) {
                Token* const from = to;
                to = encoder_.encode(documents[i].begin, documents[i].end, to);
                if (end >= 0) *to++ = static_cast<Token>(end);
                length[i] = to - from;
            }
            total = static_cast<std::size_t>(to - tokens.get());
            if (auto* const fitted = static_cast<Token*>(std::realloc(tokens.get(), (total + 1) * sizeof(Token)))) {
                tokens.release();
                tokens.reset(fitted);
            }
        }
        const py::capsule owner(tokens.get(), std::free);
        return py::make_tuple(Ids(static_cast<py::ssize_t>(total), tokens.release(), owner), lengths);
    }

  private:
    Encoder encoder_;
    std::mutex mutex_;
};

}  // namespace

void define_encode(py::module_& module) {
    py::class_<PyEncoder>(module, "Encoder")
        .def(py::init<const Ids&, const Ids&, const std::string&, bool>(), py::arg("bytes"), py::arg("merges"),
             py::arg("preset"), py::arg("split_digits"))
        .def("encode", &PyEncoder::encode, py::arg("data"), py::arg("offsets"), py::arg("end"));
}

}  // namespace bloomery::bpe
