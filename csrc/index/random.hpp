// Counter-based random numbers. The i-th number of a stream depends only on the stream's key and i (SplitMix64, Steele,
// Lea and Flood 2014). Any part of a shuffle can therefore be recomputed without the parts before it.
#pragma once

#include <cstdint>

namespace bloomery::index {

inline constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;

inline std::uint64_t mixed(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
}

// Returns number `counter` of the stream `key`, which has 64 uniform bits.
inline std::uint64_t random_at(std::uint64_t key, std::uint64_t counter) { return mixed(key + (counter + 1) * kGolden); }

// Returns the key of child stream `number` of the stream `key`. Child streams are independent of each other.
inline std::uint64_t child_key(std::uint64_t key, std::uint64_t number) { return mixed(mixed(key) ^ mixed(~number)); }

// Draws unbiased uniform numbers below a bound from one stream (Lemire 2019).
class Bounded {
   public:
    explicit Bounded(std::uint64_t key) : key_(key) {}

    std::uint32_t below(std::uint32_t bound) {
        std::uint64_t product = draw() * bound;
        if (static_cast<std::uint32_t>(product) < bound) {
            const std::uint32_t least = (0u - bound) % bound;
            while (static_cast<std::uint32_t>(product) < least) product = draw() * bound;
        }
        return static_cast<std::uint32_t>(product >> 32);
    }

   private:
    std::uint64_t draw() { return random_at(key_, counter_++) >> 32; }

    std::uint64_t key_;
    std::uint64_t counter_ = 0;
};

}  // namespace bloomery::index
