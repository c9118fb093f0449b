// The form of a text in which it is compared with others (see normal_forms in _text.pyi).
#pragma once

#include <cstdint>
#include <vector>

#include "bytes.hpp"

namespace bloomery::text {

// Appends the text with every run of white space as one space, none at its ends. True when it is known to be in
// Unicode's composed form (NFC); false when it has to be looked at, as few texts have.
bool add_normal_form(Bytes text, std::vector<std::uint8_t>& out);

}  // namespace bloomery::text
