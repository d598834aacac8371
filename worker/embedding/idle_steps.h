#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gnn::embedding {

/// Constants of Adam, with torch's defaults.
/// Source: Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015.
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

/// What a step of Adam needs beside the row: value -= step_size * m / (sqrt(v) / root + epsilon).
struct AdamStep {
  double step_size = 0;  ///< learning rate / (1 - beta1^step)
  double root = 1;       ///< sqrt(1 - beta2^step)
};
[[nodiscard]] AdamStep adam_step(const AdamOptions& options, int64_t step, double learning_rate);

/// How far Adam has moved a row that has had no gradient since some step after which its moments
/// were m and v, in closed form:
///   value -= m / (sqrt(v) + offset) * P(2 * offset / (sqrt(v) + offset) - 1)
struct IdleMove {
  static constexpr int kTerms = 8;

  double offset = 0;
  std::array<double, kTerms> coefficients{};  ///< of P, the constant first
  double error = 0;  ///< bounds the closed form's error, whatever m and v (without rounding)
};

/// What torch's Adam does to rows whose gradient is zero, over the steps of a training. A row that
/// is untouched for k steps costs one evaluation of a polynomial rather than k steps.
/// The steps of a training are counted from 1; the learning rate may differ in each.
/// Threads: readers at the same time, or one that advances.
/// Source: docs/adr/0021-dense-adam-in-closed-form.md
class IdleSteps {
 public:
  /// The largest IdleMove::error with which a closed form counts as right: a thousand of them stay
  /// within 1e-6.
  static constexpr double kTolerance = 1e-9;

  /// 0 <= beta1 < sqrt(beta2) < 1, so that an untouched row comes to rest; epsilon > 0.
  explicit IdleSteps(const AdamOptions& options);

  /// The next step is done, with this learning rate.
  void advance(double learning_rate);

  [[nodiscard]] int64_t steps() const { return static_cast<int64_t>(learning_rates_.size()); }
  [[nodiscard]] const AdamOptions& options() const { return options_; }
  /// Of the steps 1, 2, ...
  [[nodiscard]] const std::vector<double>& learning_rates() const { return learning_rates_; }

  /// What became until now of a row that had its last gradient in `step`, 1 to steps().
  [[nodiscard]] const IdleMove& since(int64_t step) const {
    return moves_[static_cast<size_t>(step - 1)];
  }
  /// Whether since(step) is too coarse, so that the row has to take each step.
  [[nodiscard]] bool must_replay(int64_t step) const { return since(step).error > kTolerance; }
  /// What each moment was multiplied by in `count` steps, at most steps().
  [[nodiscard]] double first_decay(int64_t count) const {
    return first_decays_[static_cast<size_t>(count)];
  }
  [[nodiscard]] double second_decay(int64_t count) const {
    return second_decays_[static_cast<size_t>(count)];
  }
  [[nodiscard]] AdamStep step(int64_t step) const {
    return adam_step(options_, step, learning_rates_[static_cast<size_t>(step - 1)]);
  }
  /// After this many steps a row has come to rest.
  [[nodiscard]] int64_t horizon() const { return static_cast<int64_t>(shrinks_.size()) - 1; }
  [[nodiscard]] int64_t bytes() const;

 private:
  void add(IdleMove& move, double weight, double ratio) const;
  void append_decays();

  AdamOptions options_;
  double largest_ratio_ = 0;     // of |m| to sqrt(v)
  int64_t middle_ = 1;           // steps after which half of a move is done, about
  std::vector<double> shrinks_;  // by steps idle: what m / sqrt(v) was multiplied by
  std::vector<double> grows_;    // by steps idle: what 1 / sqrt(v) was multiplied by

  std::vector<IdleMove> moves_;        // by step
  std::vector<double> first_decays_;   // by count
  std::vector<double> second_decays_;  // by count
  std::vector<double> learning_rates_;
};

}  // namespace gnn::embedding
