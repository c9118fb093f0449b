// The two passes of LAMB over this rank's part of the optimizer state. The norms are summed over ranks between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bloomery::lamb {

// Consecutive elements of one parameter in the flat arrays.
struct Segment {
    std::size_t first;
    std::size_t count;
};

// Constants of a step for one parameter group. The update is u = m / c1 / (sqrt(v / c2) + epsilon) + decay * p, where c1
// and c2 are the bias corrections.
struct Constants {
    float beta1;
    float beta2;
    float one_minus_beta1;
    float one_minus_beta2;
    float inverse_c1;
    float inverse_root_c2;
    float epsilon;
    float decay;
};

// Flat arrays of a parameter group: weights, gradient and moments.
struct State {
    const float* weights;
    float* gradient;
    float* mean;
    float* square;
};

// Update the moments and replace the gradient by u. Return the sum of p^2 and the sum of u^2 of each segment. The sums do
// not depend on `threads`.
std::vector<double> update_moments(const State& state, const std::vector<Segment>& segments, const Constants& constants,
                                   unsigned threads);

// Subtract rates[s] * u from the weights of segment s.
void update_weights(float* weights, const float* updates, const std::vector<Segment>& segments, const float* rates,
                    unsigned threads);

}  // namespace bloomery::lamb
