// Python module training.model._dropout. Its signatures and documentation are in _dropout.pyi.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "drop.hpp"

namespace py = pybind11;

namespace bloomery::dropout {
namespace {

template <typename Number>
using Rows = py::array_t<Number, py::array::c_style>;

template <typename Number, typename Kernel>
void drop_rows(const Rows<Number>& x, Rows<Number> out, const Rows<std::int64_t>& numbers, std::uint64_t first,
               std::uint32_t threshold, float scale, std::uint64_t causal, Kernel kernel) {
    if (x.ndim() != 2 || out.ndim() != 2 || out.shape(0) != x.shape(0) || out.shape(1) != x.shape(1)) {
        throw std::invalid_argument("x and out must be 2-D and have the same shape");
    }
    if (numbers.ndim() != 2 || numbers.shape(0) != x.shape(0) || numbers.shape(1) != 2) {
        throw std::invalid_argument("numbers must be [rows, 2]");
    }
    const auto rows = x.shape(0), columns = x.shape(1);
    const auto length = static_cast<py::ssize_t>(causal);
    if (causal != 0 && (first % causal != 0 || columns % length != 0)) {
        throw std::invalid_argument("with causal, the elements must be whole rows of square matrices");
    }
    const Number* from = x.data();
    Number* to = out.mutable_data();
    const std::int64_t* keys = numbers.data();
    const py::gil_scoped_release release;
    for (py::ssize_t row = 0; row < rows; ++row) {
        const Row own{static_cast<std::uint64_t>(keys[2 * row]), static_cast<std::uint64_t>(keys[2 * row + 1])};
        const Number* in = from + row * columns;
        Number* out_row = to + row * columns;
        if (causal == 0) {
            kernel(in, out_row, static_cast<std::size_t>(columns), first, own, Rule{threshold, scale});
            continue;
        }
        for (py::ssize_t begin = 0; begin < columns; begin += length) {
            const std::uint64_t at = first + static_cast<std::uint64_t>(begin), kept = at / causal % causal + 1;
            kernel(in + begin, out_row + begin, kept, at, own, Rule{threshold, scale});
            std::fill(out_row + begin + kept, out_row + begin + length, Number{0});
        }
    }
}

void drop_float_rows(const Rows<float>& x, Rows<float> out, const Rows<std::int64_t>& numbers, std::uint64_t first,
                     std::uint32_t threshold, float scale, std::uint64_t causal) {
    drop_rows<float>(x, std::move(out), numbers, first, threshold, scale, causal, drop_float);
}

void drop_bfloat16_rows(const Rows<std::uint16_t>& x, Rows<std::uint16_t> out, const Rows<std::int64_t>& numbers,
                        std::uint64_t first, std::uint32_t threshold, float scale, std::uint64_t causal) {
    drop_rows<std::uint16_t>(x, std::move(out), numbers, first, threshold, scale, causal, drop_bfloat16);
}

}  // namespace
}  // namespace bloomery::dropout

PYBIND11_MODULE(_dropout, module) {
    using namespace bloomery::dropout;
    module.doc() = "Compiled kernel of dropout (see _dropout.pyi).";
    const auto noconvert = [](const char* name) { return py::arg(name).noconvert(); };
    module.def("drop_float", &drop_float_rows, noconvert("x"), noconvert("out"), noconvert("numbers"), py::arg("first"),
               py::arg("threshold"), py::arg("scale"), py::arg("causal") = 0);
    module.def("drop_bfloat16", &drop_bfloat16_rows, noconvert("x"), noconvert("out"), noconvert("numbers"),
               py::arg("first"), py::arg("threshold"), py::arg("scale"), py::arg("causal") = 0);
}
