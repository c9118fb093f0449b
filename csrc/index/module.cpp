// Python module data_prep.index._index. Its signatures and documentation are in _index.pyi.
#include <pybind11/pybind11.h>

namespace bloomery::index {

void define_blend(pybind11::module_& module);
void define_order(pybind11::module_& module);

}  // namespace bloomery::index

PYBIND11_MODULE(_index, module) {
    module.doc() = "Compiled kernels of the index (see _index.pyi).";
    bloomery::index::define_order(module);
    bloomery::index::define_blend(module);
}
