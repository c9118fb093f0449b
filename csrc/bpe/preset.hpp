// Finds a preset by its name in the configuration.
#pragma once

#include <stdexcept>
#include <string>

#include "split.hpp"

namespace bloomery::bpe {

inline Preset preset_named(const std::string& name) {
    if (name == "bloom") return Preset::Bloom;
    if (name == "modern") return Preset::Modern;
    throw std::invalid_argument("no pre-tokenizer preset is named " + name);
}

}  // namespace bloomery::bpe
