// A view of memory that the view does not own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bloomery {

struct Bytes {
    const std::uint8_t* begin;
    const std::uint8_t* end;
    std::size_t size() const { return static_cast<std::size_t>(end - begin); }
};

}  // namespace bloomery
