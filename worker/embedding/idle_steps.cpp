#include "worker/embedding/idle_steps.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

namespace gnn::embedding {
namespace {

constexpr int kTerms = IdleMove::kTerms;
// What is left of a move is dropped once it is this small a part of it.
constexpr double kRest = 1e-17;

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
  largest_ratio_ = (1 - options.beta1) / std::sqrt((1 - options.beta2) * (1 - shrink * shrink));
  middle_ = std::lround(1 / (1 - shrink));
  double left = 1;
  double grown = 1;
  while (left > kRest || shrinks_.size() < 2) {
    shrinks_.push_back(left);
    grows_.push_back(grown);
    left *= shrink;
    grown /= root2;
  }
  append_decays();
}

// Adds to `move` a step of `weight` at whose time the part of epsilon was `ratio` times that at the
// move's centre. Its term, weight / (1 + q (ratio - 1)) with q in [0, 1] from the row, is in
// z = 2 q - 1 a constant times 1 / (1 - u z) with |u| < 1. Interpolation at the roots of Chebyshev's
// T_8 makes of that (1 - T_8(z) / T_8(1 / u)) / (1 - u z): a polynomial, and wrong by the part
// T_8(z) / T_8(1 / u) of the term. The division gives its coefficients.
void IdleSteps::add(IdleMove& move, double weight, double ratio) const {
  static_assert(kTerms == 8);
  const double u = (1 - ratio) / (1 + ratio);
  const double u2 = u * u;
  const double u4 = u2 * u2;
  // 1 / T_8(1 / u), T_8(z) = 128 z^8 - 256 z^6 + 160 z^4 - 32 z^2 + 1
  const double part = u4 * u4 / (128 - 256 * u2 + 160 * u4 - 32 * u4 * u2 + u4 * u4);
  const double scale = 2 * weight / (1 + ratio);
  double coefficient = 1 - part;
  move.coefficients[0] += scale * coefficient;
  constexpr std::array<double, kTerms> kOfT8{1, 0, -32, 0, 160, 0, -256, 0};
  for (size_t power = 1; power < kTerms; ++power) {
    coefficient = u * coefficient - kOfT8[power] * part;
    move.coefficients[power] += scale * coefficient;
  }
  move.error += largest_ratio_ * weight * part;
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
  moves_.push_back({.offset = options_.epsilon * root_there * grows_[static_cast<size_t>(middle)]});
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
