// Python module training.optim._lamb. Its signatures and documentation are in _lamb.pyi.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "lamb.hpp"

namespace py = pybind11;

namespace bloomery::lamb {
namespace {

template <typename Number>
using Array = py::array_t<Number, py::array::c_style>;
using Floats = Array<float>;

void check(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

std::vector<Segment> segments_of(const Array<std::int64_t>& rows, py::ssize_t elements) {
    check(rows.ndim() == 2 && rows.shape(1) == 2, "segments must be [segments, 2]");
    std::vector<Segment> found;
    for (py::ssize_t row = 0; row < rows.shape(0); ++row) {
        const std::int64_t first = rows.at(row, 0), count = rows.at(row, 1);
        check(first >= 0 && count >= 0 && first <= elements - count, "a segment is outside of the arrays");
        found.push_back({static_cast<std::size_t>(first), static_cast<std::size_t>(count)});
    }
    return found;
}

void check_lengths(const Floats& weights, std::initializer_list<const Floats*> others) {
    check(weights.ndim() == 1, "the arrays must be 1-D");
    for (const Floats* other : others) {
        check(other->ndim() == 1 && other->size() == weights.size(), "the arrays must have the same length");
    }
}

Array<double> moments(const Floats& weights, Floats gradient, Floats mean, Floats square,
                      const Array<std::int64_t>& segments, double beta1, double beta2, double c1, double c2,
                      double epsilon, double decay, unsigned threads) {
    check_lengths(weights, {&gradient, &mean, &square});
    const auto found = segments_of(segments, weights.size());
    const State state{weights.data(), gradient.mutable_data(), mean.mutable_data(), square.mutable_data()};
    const Constants constants{static_cast<float>(beta1),     static_cast<float>(beta2),
                              static_cast<float>(1 - beta1), static_cast<float>(1 - beta2),
                              static_cast<float>(1 / c1),    static_cast<float>(1 / std::sqrt(c2)),
                              static_cast<float>(epsilon),   static_cast<float>(decay)};
    std::vector<double> sums;
    {
        const py::gil_scoped_release release;
        sums = update_moments(state, found, constants, threads);
    }
    Array<double> result({static_cast<py::ssize_t>(found.size()), py::ssize_t{2}});
    std::copy(sums.begin(), sums.end(), result.mutable_data());
    return result;
}

void subtract_updates(Floats weights, const Floats& updates, const Array<std::int64_t>& segments, const Floats& rates,
                      unsigned threads) {
    check_lengths(weights, {&updates});
    const auto found = segments_of(segments, weights.size());
    check(rates.ndim() == 1 && rates.shape(0) == segments.shape(0), "rates must be [segments]");
    float* to = weights.mutable_data();
    const py::gil_scoped_release release;
    update_weights(to, updates.data(), found, rates.data(), threads);
}

}  // namespace
}  // namespace bloomery::lamb

PYBIND11_MODULE(_lamb, module) {
    using namespace bloomery::lamb;
    module.doc() = "Compiled kernels of LAMB (see _lamb.pyi).";
    const auto exact = [](const char* name) { return py::arg(name).noconvert(); };
    module.def("update_moments", &moments, exact("weights"), exact("gradient"), exact("mean"), exact("square"),
               exact("segments"), py::arg("beta1"), py::arg("beta2"), py::arg("c1"), py::arg("c2"), py::arg("epsilon"),
               py::arg("decay"), py::arg("threads"));
    module.def("update_weights", &subtract_updates, exact("weights"), exact("updates"), exact("segments"),
               exact("rates"), py::arg("threads"));
}
