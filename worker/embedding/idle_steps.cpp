#include "worker/embedding/idle_steps.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gnn::embedding {
namespace {

constexpr int kTerms = IdleMove::kTerms;
// What is left of a move is dropped once it is this small a part of it.
constexpr double kRest = 1e-18;

// Coefficients of the Chebyshev polynomials of the first kind, by degree.
std::array<std::array<double, kTerms>, kTerms> chebyshev_coefficients() {
  std::array<std::array<double, kTerms>, kTerms> of{};
  of[0][0] = 1;
  of[1][1] = 1;
  for (size_t k = 2; k < kTerms; ++k) {
    for (size_t power = 0; power < kTerms; ++power) {
      const double shifted = power == 0 ? 0 : of[k - 1][power - 1];
      of[k][power] = 2 * shifted - of[k - 2][power];
    }
  }
  return of;
}

double node_angle(size_t node) {
  return std::numbers::pi * (2 * static_cast<double>(node) + 1) / (2 * kTerms);
}

}  // namespace

AdamStep adam_step(const AdamOptions& options, int64_t step, double learning_rate) {
  const auto count = static_cast<double>(step);
  return {
      .step_size = learning_rate / (1 - std::pow(options.beta1, count)),
      .root = std::sqrt(1 - std::pow(options.beta2, count)),
  };
}

IdleSteps::IdleSteps(const AdamOptions& options) : options_(options) {
  const double root2 = std::sqrt(options.beta2);
  TORCH_CHECK(
      options.beta1 >= 0 && options.beta1 < root2 && options.beta2 < 1 && options.epsilon > 0,
      "Adam of untouched rows: expected 0 <= beta1 < sqrt(beta2) < 1 and epsilon > 0, found beta1 ",
      options.beta1,
      ", beta2 ",
      options.beta2,
      ", epsilon ",
      options.epsilon
  );
  const double shrink = options.beta1 / root2;
  // The moments are sums of the same gradients: by Cauchy and Schwarz.
  largest_ratio_ =
      (1 - options.beta1) / std::sqrt((1 - options.beta2) * (1 - shrink * shrink));
  middle_ = std::lround(1 / (1 - shrink));
  for (double left = 1, grown = 1; left > kRest || shrinks_.size() < 2;
       left *= shrink, grown /= root2) {
    shrinks_.push_back(left);
    grows_.push_back(grown);
  }
  const auto chebyshev = chebyshev_coefficients();
  for (size_t node = 0; node < kTerms; ++node) {
    nodes_[node] = (std::cos(node_angle(node)) + 1) / 2;
    for (size_t k = 0; k < kTerms; ++k) {
      const double share =
          (k == 0 ? 1.0 : 2.0) / kTerms * std::cos(static_cast<double>(k) * node_angle(node));
      for (size_t power = 0; power < kTerms; ++power)
        to_coefficients_[node][power] += share * chebyshev[k][power];
    }
  }
  append_decays();
}

// Adds to `move` a step of `weight` at whose time the part of epsilon was `ratio` times that at the
// move's centre: the term weight / (1 + q (ratio - 1)), with q in [0, 1] from the row, interpolated
// at Chebyshev nodes of q. The term has one pole, at z = (1 + ratio) / (1 - ratio) of z = 2 q - 1, so
// that its interpolation at n nodes is wrong by exactly the part T_n(2 q - 1) / T_n(pole) of it.
void IdleSteps::add(IdleMove& move, double weight, double ratio) const {
  for (size_t node = 0; node < kTerms; ++node) {
    const double value = weight / (1 + nodes_[node] * (ratio - 1));
    for (size_t power = 0; power < kTerms; ++power)
      move.coefficients[power] += value * to_coefficients_[node][power];
  }
  const double root = std::sqrt(ratio);
  const double base = std::abs((1 - root) / (1 + root));
  const double square = base * base;
  const double fourth = square * square;
  static_assert(kTerms == 8);
  move.error += largest_ratio_ * weight * 2 * fourth * fourth;
}

void IdleSteps::append_decays() {
  const auto count = static_cast<double>(first_decays_.size());
  first_decays_.push_back(std::pow(options_.beta1, count));
  second_decays_.push_back(std::pow(options_.beta2, count));
}

void IdleSteps::advance(double learning_rate) {
  const int64_t now = steps() + 1;
  const AdamStep step = adam_step(options_, now, learning_rate);
  const double weight = step.step_size * step.root;
  for (int64_t past = std::max<int64_t>(1, now - horizon()); past < now; ++past) {
    IdleMove& move = moves_[static_cast<size_t>(past - 1)];
    const auto idle = static_cast<size_t>(now - past);
    const double ratio = options_.epsilon * step.root * grows_[idle] / move.offset;
    add(move, weight * shrinks_[idle], ratio);
  }
  const int64_t middle = std::min(middle_, horizon());
  const double root_there = adam_step(options_, now + middle, 1).root;
  moves_.push_back(
      {.offset = options_.epsilon * root_there * grows_[static_cast<size_t>(middle)]}
  );
  learning_rates_.push_back(learning_rate);
  append_decays();
}

int64_t IdleSteps::bytes() const {
  return static_cast<int64_t>(
      moves_.capacity() * sizeof(IdleMove) +
      (first_decays_.capacity() + second_decays_.capacity() + learning_rates_.capacity()) *
          sizeof(double)
  );
}

}  // namespace gnn::embedding
