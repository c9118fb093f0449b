// Python module data_prep.tokenizer._bpe. Signatures and documentation are in _bpe.pyi.
#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace bloomery::bpe {

void define_encode(py::module_& module);
void define_count(py::module_& module);
void define_train(py::module_& module);

}  // namespace bloomery::bpe

PYBIND11_MODULE(_bpe, module) {
    module.doc() = "Compiled byte-pair encoding: count pieces of text, train on them, and encode text (see _bpe.pyi).";
    bloomery::bpe::define_train(module);
    bloomery::bpe::define_count(module);
    bloomery::bpe::define_encode(module);
}
