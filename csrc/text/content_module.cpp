// Bindings of the normal forms in the Python module data_prep.corpus._text.
#include <cstdint>
#include <vector>

#include <pybind11/numpy.h>

#include "content.hpp"
#include "documents.hpp"

namespace py = pybind11;

namespace bloomery::text {
namespace {

py::tuple normal_forms(const py::object& data, const Documents::Offsets& offsets) {
    const Documents documents(data, offsets);
    const std::size_t count = documents.size();
    py::array_t<std::int64_t> bounds(static_cast<py::ssize_t>(count + 1));
    py::array_t<std::uint8_t> settled(static_cast<py::ssize_t>(count));
    std::int64_t* const bound = bounds.mutable_data();
    std::uint8_t* const done = settled.mutable_data();
    std::vector<std::uint8_t> forms;
    {
        const py::gil_scoped_release release;
        bound[0] = 0;
        for (std::size_t i = 0; i < count; ++i) {
            done[i] = add_normal_form(documents[i], forms);
            bound[i + 1] = static_cast<std::int64_t>(forms.size());
        }
    }
    return py::make_tuple(py::bytes(reinterpret_cast<const char*>(forms.data()), forms.size()), bounds, settled);
}

}  // namespace

void define_content(py::module_& module) {
    std::vector<std::uint8_t> none;
    add_normal_form({}, none);  // expands the table once, at import
    module.def("normal_forms", &normal_forms, py::arg("data"), py::arg("offsets"));
}

}  // namespace bloomery::text
