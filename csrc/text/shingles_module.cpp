// Bindings of the shingle comparison in the Python module data_prep.corpus._text.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <stdexcept>

#include "shingles.hpp"

namespace py = pybind11;

namespace bloomery::text {
namespace {

using Values = py::array_t<std::uint64_t, py::array::c_style>;
using Places = py::array_t<std::int64_t, py::array::c_style>;

py::array_t<double> jaccard(const Values& values, const Places& bounds, const Places& left, const Places& right) {
    if (values.ndim() != 1 || bounds.ndim() != 1 || left.ndim() != 1 || right.ndim() != 1 || bounds.size() < 1 ||
        left.size() != right.size()) {
        throw std::invalid_argument("all arrays must be 1-D, bounds not empty, and left and right equally long");
    }
    const std::int64_t* const bound = bounds.data();
    const auto documents = static_cast<std::int64_t>(bounds.size()) - 1;
    for (std::int64_t i = 0; i < documents; ++i) {
        if (bound[i] < 0 || bound[i] > bound[i + 1]) throw std::invalid_argument("bounds must not fall or be negative");
    }
    if (bound[0] < 0 || bound[documents] > values.size()) {
        throw std::invalid_argument("bounds leave the range of values");
    }
    const std::int64_t *const one = left.data(), *const two = right.data();
    for (py::ssize_t i = 0; i < left.size(); ++i) {
        if (one[i] < 0 || one[i] >= documents || two[i] < 0 || two[i] >= documents) {
            throw std::invalid_argument("left or right names a document that is not there");
        }
    }
    py::array_t<double> result(left.size());
    double* const similarity = result.mutable_data();
    const std::uint64_t* const all = values.data();
    const py::ssize_t pairs = left.size();
    {
        const py::gil_scoped_release release;
        for (py::ssize_t i = 0; i < pairs; ++i) {
            const std::int64_t a = one[i], b = two[i];
            const std::int64_t shared =
                count_shared(all + bound[a], all + bound[a + 1], all + bound[b], all + bound[b + 1]);
            const std::int64_t together = bound[a + 1] - bound[a] + bound[b + 1] - bound[b] - shared;
            // Two documents without shingles are not similar.
            similarity[i] = together == 0 ? 0.0 : static_cast<double>(shared) / static_cast<double>(together);
        }
    }
    return result;
}

}  // namespace

void define_shingles(py::module_& module) {
    module.def("jaccard", &jaccard, py::arg("values"), py::arg("bounds"), py::arg("left"), py::arg("right"));
}

}  // namespace bloomery::text
