// Bindings of the blend in the Python module data_prep.index._index.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "blend.hpp"

namespace py = pybind11;

namespace bloomery::index {
namespace {

using Integers = py::array_t<std::int64_t, py::array::c_style>;

template <typename Number, typename Sample>
py::tuple filled(const std::vector<Share>& shares, std::int64_t planned, std::int64_t begin, std::int64_t end) {
    py::ssize_t total = 0;
    for (const Share& share : shares) {
        total += before_slot(share.quota, planned, end) - before_slot(share.quota, planned, begin);
    }
    py::array_t<Number> numbers(total);
    py::array_t<Sample> samples(total);
    Number* const to_numbers = numbers.mutable_data();
    Sample* const to_samples = samples.mutable_data();
    {
        const py::gil_scoped_release release;
        blend(shares, planned, begin, end, to_numbers, to_samples);
    }
    return py::make_tuple(numbers, samples);
}

py::tuple blend_slots(const Integers& quotas, const Integers& numbers, const Integers& firsts, std::int64_t planned,
                      std::int64_t begin, std::int64_t end) {
    const py::ssize_t count = quotas.size();
    if (quotas.ndim() != 1 || numbers.ndim() != 1 || firsts.ndim() != 1 || numbers.size() != count ||
        firsts.size() != count) {
        throw std::invalid_argument("quotas, numbers and firsts must be 1-D, one entry a dataset");
    }
    if (planned < 1 || planned > kMostSamples) throw std::invalid_argument("planned must lie between 1 and 2^61");
    if (begin < 0 || begin > end || end > planned) throw std::invalid_argument("slots must lie between 0 and planned");
    std::vector<Share> shares;
    std::int64_t greatest_number = 0;
    std::int64_t greatest_sample = 0;
    for (py::ssize_t i = 0; i < count; ++i) {
        const std::int64_t quota = quotas.data()[i];
        const std::int64_t number = numbers.data()[i];
        const std::int64_t first = firsts.data()[i];
        if (quota < 0 || quota > planned) throw std::invalid_argument("quotas must lie between 0 and planned");
        if (number < 0 || number > std::numeric_limits<std::int32_t>::max()) {
            throw std::invalid_argument("numbers must lie between 0 and 2^31 - 1");
        }
        if (first < 0 || first > kMostSamples) throw std::invalid_argument("firsts must lie between 0 and 2^61");
        shares.push_back({quota, static_cast<std::int32_t>(number), first});
        greatest_number = std::max(greatest_number, number);
        greatest_sample = std::max(greatest_sample, first + quota - 1);
    }
    const bool short_numbers = greatest_number <= std::numeric_limits<std::int16_t>::max();
    const bool short_samples = greatest_sample <= std::numeric_limits<std::uint32_t>::max();
    const auto fill = short_numbers
                          ? (short_samples ? filled<std::int16_t, std::uint32_t> : filled<std::int16_t, std::int64_t>)
                          : (short_samples ? filled<std::int32_t, std::uint32_t> : filled<std::int32_t, std::int64_t>);
    return fill(shares, planned, begin, end);
}

}  // namespace

void define_blend(py::module_& module) {
    module.def("blend", &blend_slots, py::arg("quotas"), py::arg("numbers"), py::arg("firsts"), py::arg("planned"),
               py::arg("begin"), py::arg("end"));
}

}  // namespace bloomery::index
