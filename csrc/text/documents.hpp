// A batch of byte strings in Arrow's layout: one buffer and n + 1 offsets. The modules _text and _bpe share this class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "bytes.hpp"

namespace bloomery {

// Keeps the caller's buffer alive. Construct and destroy this object with the GIL held.
class Documents {
  public:
    using Offsets = pybind11::array_t<std::int64_t, pybind11::array::c_style>;

    Documents(const pybind11::object& data, const Offsets& offsets) : offsets_(offsets) {
        if (offsets.ndim() != 1 || offsets.size() < 1) {
            throw std::invalid_argument("offsets must be 1-D with n + 1 entries");
        }
        if (PyObject_GetBuffer(data.ptr(), &view_, PyBUF_SIMPLE) != 0) throw pybind11::error_already_set();
        try {
            validate();
        } catch (...) {
            PyBuffer_Release(&view_);
            throw;
        }
    }
    Documents(const Documents&) = delete;
    Documents& operator=(const Documents&) = delete;
    ~Documents() { PyBuffer_Release(&view_); }

    std::size_t size() const { return static_cast<std::size_t>(offsets_.size()) - 1; }

    Bytes operator[](std::size_t index) const {
        const auto* base = static_cast<const std::uint8_t*>(view_.buf);
        const std::int64_t* offset = offsets_.data();
        return {base + offset[index], base + offset[index + 1]};
    }

  private:
    void validate() const {
        const std::int64_t* offset = offsets_.data();
        std::int64_t previous = 0;
        for (std::size_t i = 0; i <= size(); ++i) {
            if (offset[i] < previous || offset[i] > view_.len) {
                throw std::invalid_argument("offsets[" + std::to_string(i) + "] = " + std::to_string(offset[i]) +
                                            " must lie between " + std::to_string(previous) + " and " +
                                            std::to_string(view_.len));
            }
            previous = offset[i];
        }
    }

    Offsets offsets_;
    Py_buffer view_{};
};

}  // namespace bloomery
