#include "lamb.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <system_error>
#include <thread>

// The fastest instructions of the machine are chosen when the module is loaded. All of them round in the same way.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("default", "avx2")))
#else
#define FOR_EACH_PROCESSOR
#endif

namespace bloomery::lamb {
namespace {

// Number of elements that a thread takes at a time. The sums of a segment are added chunk by chunk, in order.
constexpr std::size_t CHUNK = 1 << 16;
// Sums are kept in float for this many elements, then added to a double.
constexpr std::size_t BLOCK = 1024;
// Number of partial sums, so that the compiler can use vector instructions.
constexpr std::size_t LANES = 16;

struct Chunk {
    std::size_t segment;
    std::size_t first;
    std::size_t count;
};

std::vector<Chunk> chunks_of(const std::vector<Segment>& segments) {
    std::vector<Chunk> found;
    for (std::size_t number = 0; number < segments.size(); ++number) {
        const Segment& segment = segments[number];
        for (std::size_t done = 0; done < segment.count; done += CHUNK) {
            found.push_back({number, segment.first + done, std::min(CHUNK, segment.count - done)});
        }
    }
    return found;
}

template <typename Work>
void in_threads(std::size_t count, unsigned threads, Work work) {
    std::atomic<std::size_t> next{0};
    const auto run = [&] {
        for (std::size_t number = next++; number < count; number = next++) work(number);
    };
    std::vector<std::thread> others;
    try {
        for (unsigned number = 1; number < std::min<std::size_t>(threads, count); ++number) others.emplace_back(run);
    } catch (const std::system_error&) {
        // The system allows no more threads, so the others do the work.
    }
    run();
    for (auto& other : others) other.join();
}

// Return the sum of the squares of up to BLOCK numbers.
inline __attribute__((always_inline)) float sum_of_squares(const float* __restrict numbers, std::size_t count) {
    float sums[LANES] = {};
    std::size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (std::size_t lane = 0; lane < LANES; ++lane) sums[lane] += numbers[i + lane] * numbers[i + lane];
    }
    for (std::size_t lane = 0; i < count; ++i, ++lane) sums[lane] += numbers[i] * numbers[i];
    float sum = 0;
    for (const float each : sums) sum += each;
    return sum;
}

// Update the moments of up to BLOCK elements, write their updates, and add the squares to the sums. The arrays of a block
// stay in the cache of the core between the loops.
FOR_EACH_PROCESSOR
void update_block(const float* __restrict weights, float* __restrict gradient, float* __restrict mean,
                  float* __restrict square, std::size_t count, const Constants& constants, double* sums) {
    const Constants c = constants;
    for (std::size_t i = 0; i < count; ++i) {
        const float m = mean[i] * c.beta1 + gradient[i] * c.one_minus_beta1;
        const float v = square[i] * c.beta2 + gradient[i] * gradient[i] * c.one_minus_beta2;
        mean[i] = m;
        square[i] = v;
        gradient[i] = m * c.inverse_c1 / (std::sqrt(v) * c.inverse_root_c2 + c.epsilon) + c.decay * weights[i];
    }
    sums[0] += sum_of_squares(weights, count);
    sums[1] += sum_of_squares(gradient, count);
}

FOR_EACH_PROCESSOR
void subtract(float* __restrict weights, const float* __restrict updates, std::size_t count, float rate) {
    for (std::size_t i = 0; i < count; ++i) weights[i] -= rate * updates[i];
}

}  // namespace

std::vector<double> update_moments(const State& state, const std::vector<Segment>& segments, const Constants& constants,
                                   unsigned threads) {
    const std::vector<Chunk> chunks = chunks_of(segments);
    std::vector<double> parts(2 * chunks.size()), sums(2 * segments.size());
    in_threads(chunks.size(), threads, [&](std::size_t number) {
        const Chunk& chunk = chunks[number];
        for (std::size_t done = 0; done < chunk.count; done += BLOCK) {
            const std::size_t first = chunk.first + done, count = std::min(BLOCK, chunk.count - done);
            update_block(state.weights + first, state.gradient + first, state.mean + first, state.square + first, count,
                         constants, &parts[2 * number]);
        }
    });
    for (std::size_t number = 0; number < chunks.size(); ++number) {
        for (std::size_t what = 0; what < 2; ++what) sums[2 * chunks[number].segment + what] += parts[2 * number + what];
    }
    return sums;
}

void update_weights(float* weights, const float* updates, const std::vector<Segment>& segments, const float* rates,
                    unsigned threads) {
    const std::vector<Chunk> chunks = chunks_of(segments);
    in_threads(chunks.size(), threads, [&](std::size_t number) {
        const Chunk& chunk = chunks[number];
        subtract(weights + chunk.first, updates + chunk.first, chunk.count, rates[chunk.segment]);
    });
}

}  // namespace bloomery::lamb
