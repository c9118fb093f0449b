// The normal form in which texts are compared (see normal_forms in _text.pyi).
#pragma once

#include <cstdint>
#include <vector>

#include "bytes.hpp"

namespace bloomery::text {

// Appends the text to `out`, with each run of white space replaced by one space and none at either end. Returns true if
// the result is known to be in Unicode's composed form (NFC). For the few other texts, the caller must check and
// compose.
bool add_normal_form(Bytes text, std::vector<std::uint8_t>& out);

}  // namespace bloomery::text
