#include "worker/embedding/adam_rows.h"

#include "common/instruction_sets.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

// Each loop over a row's elements is compiled for every processor and for AVX2 with fused
// multiply-add. LibTorch does the same, and fuses where fused() stands here: so bits are torch's on
// either.
#if defined(__x86_64__)
#define GNN_AVX2_FMA __attribute__((target("avx2,fma")))
#else
#define GNN_AVX2_FMA
#endif

namespace gnn::embedding {
namespace {

constexpr int64_t kElementsPerTask = int64_t{16} * 1024;
// Rows lie anywhere: how many before its turn a row is asked for from memory.
constexpr int64_t kAhead = 4;
constexpr int64_t kCacheLine = 64;

bool has_avx2_and_fma() {
#if defined(__x86_64__)
  static const bool kHas = has_avx2() && __builtin_cpu_supports("fma");
  return kHas;
#else
  return false;
#endif
}

// a * b + c, rounded once on processors that can.
template <bool kFuse, class T>
GNN_INLINE T fused(T a, T b, T c) {
  if constexpr (!kFuse) return a * b + c;
  if constexpr (sizeof(T) == sizeof(float)) return __builtin_fmaf(a, b, c);
  return __builtin_fma(a, b, c);
}

// IdleMove and what the moments become, in the table's type.
template <class T>
struct Move {
  T offset;
  std::array<T, IdleMove::kTerms> coefficients;
  T first_decay;
  T second_decay;
};

template <class T>
Move<T> move_of(const IdleSteps& idle, int64_t last) {
  const IdleMove& from = idle.since(last);
  Move<T> move{};
  move.offset = static_cast<T>(from.offset);
  for (size_t i = 0; i < move.coefficients.size(); ++i)
    move.coefficients[i] = static_cast<T>(from.coefficients[i]);
  move.first_decay = static_cast<T>(idle.first_decay(idle.steps() - last));
  move.second_decay = static_cast<T>(idle.second_decay(idle.steps() - last));
  return move;
}

template <class T>
GNN_INLINE T moved(const Move<T>& move, T value, T m, T v) {
  const T inverse = T{1} / (std::sqrt(v) + move.offset);
  const T z = T{2} * (move.offset * inverse) - T{1};
  T sum = move.coefficients[IdleMove::kTerms - 1];
  for (int i = IdleMove::kTerms - 2; i >= 0; --i)
    sum = sum * z + move.coefficients[static_cast<size_t>(i)];
  return value - m * inverse * sum;
}

// A moment that has decayed to a number below the normal ones counts as 0: it moves nothing, and
// such numbers are slow.
template <class T>
GNN_INLINE T decayed(T moment, T decay) {
  const T result = moment * decay;
  return std::abs(result) < std::numeric_limits<T>::min() ? T{0} : result;
}

// The constants of a step, in the table's type, as torch converts them.
template <class T>
struct Step {
  Step(const AdamOptions& options, const AdamStep& step)
      : beta1(static_cast<T>(options.beta1)),
        beta2(static_cast<T>(options.beta2)),
        rest1(static_cast<T>(1 - options.beta1)),
        rest2(static_cast<T>(1 - options.beta2)),
        root(static_cast<T>(step.root)),
        epsilon(static_cast<T>(options.epsilon)),
        minus_step_size(static_cast<T>(-step.step_size)) {}

  T beta1, beta2, rest1, rest2, root, epsilon, minus_step_size;
};

template <class T>
struct Row {
  T* __restrict values;
  T* __restrict m;
  T* __restrict v;
  int64_t width;
};

// ---- loops over the elements of a row

template <class T>
GNN_INLINE void read_moved(const Move<T>& move, const Row<const T>& row, T* out) {
  for (int64_t d = 0; d < row.width; ++d) out[d] = moved(move, row.values[d], row.m[d], row.v[d]);
}

template <class T>
GNN_INLINE void move_row(const Move<T>& move, const Row<T>& row) {
  for (int64_t d = 0; d < row.width; ++d) {
    row.values[d] = moved(move, row.values[d], row.m[d], row.v[d]);
    row.m[d] = decayed(row.m[d], move.first_decay);
    row.v[d] = decayed(row.v[d], move.second_decay);
  }
}

// A step of torch's Adam without a gradient.
template <class T>
GNN_INLINE void rest_row(const Step<T>& step, const Row<T>& row) {
  for (int64_t d = 0; d < row.width; ++d) {
    const T m = row.m[d] * step.beta1;
    const T v = row.v[d] * step.beta2;
    const T divisor = std::sqrt(v) / step.root + step.epsilon;
    row.values[d] += step.minus_step_size * m / divisor;
    row.m[d] = m;
    row.v[d] = v;
  }
}

template <class T>
GNN_INLINE bool is_finite(const T* gradient, int64_t width) {
  T sum = 0;  // of zeros; 0 * infinity and 0 * NaN are NaN
  for (int64_t d = 0; d < width; ++d) sum += T{0} * gradient[d];
  return sum == T{0};
}

// A step of torch's Adam.
template <bool kFuse, class T>
GNN_INLINE void step_row(const Step<T>& step, const Row<T>& row, const T* gradient, T factor) {
  for (int64_t d = 0; d < row.width; ++d) {
    const T g = gradient[d] * factor;
    const T m = fused<kFuse>(g, step.rest1, row.m[d] * step.beta1);
    const T v = fused<kFuse>(step.rest2 * g, g, row.v[d] * step.beta2);
    const T divisor = std::sqrt(v) / step.root + step.epsilon;
    row.values[d] += step.minus_step_size * m / divisor;
    row.m[d] = m;
    row.v[d] = v;
  }
}

// A step of SparseAdam: epsilon stands beside the uncorrected root; the step size is corrected for it.
template <class T>
GNN_INLINE void step_touched_row(
    const Step<T>& step, const Row<T>& row, const T* gradient, T factor
) {
  for (int64_t d = 0; d < row.width; ++d) {
    const T g = gradient[d] * factor;
    const T m = row.m[d] + (g - row.m[d]) * step.rest1;
    const T v = row.v[d] + (g * g - row.v[d]) * step.rest2;
    row.values[d] += step.minus_step_size * (m / (std::sqrt(v) + step.epsilon));
    row.m[d] = m;
    row.v[d] = v;
  }
}

// ---- rows

// All steps up to now, one by one, for a row that had its last gradient in `last`.
template <class T>
GNN_INLINE void replay(const IdleSteps& idle, int64_t last, const Row<T>& row) {
  const int64_t end = std::min(idle.steps(), last + idle.horizon());
  for (int64_t step = last + 1; step <= end; ++step)
    rest_row(Step<T>(idle.options(), idle.step(step)), row);
  const auto first = static_cast<T>(idle.first_decay(idle.steps() - end));
  const auto second = static_cast<T>(idle.second_decay(idle.steps() - end));
  for (int64_t d = 0; d < row.width; ++d) {
    row.m[d] *= first;
    row.v[d] *= second;
  }
}

template <class T>
struct Reading {
  const T* state;
  const int32_t* last_steps;  // null: rows rest where they are
  int64_t width;
  const int64_t* ids;  // null: all rows from first_row on
  int64_t first_row;
  T* out;
  const IdleSteps* idle;

  [[nodiscard]] int64_t id(int64_t i) const { return ids == nullptr ? first_row + i : ids[i]; }
};

template <class T>
struct Updating {
  T* state;
  int32_t* last_steps;  // null: SparseAdam
  int64_t width;
  const int64_t* ids;
  const T* gradients;
  T factor;
  const IdleSteps* idle;
  Step<T> step;
  std::atomic<int64_t>* first_bad_row;
};

template <class T>
GNN_INLINE void prefetch_row(const T* state, const int32_t* last_steps, int64_t width, int64_t id) {
  if (last_steps != nullptr) __builtin_prefetch(last_steps + id);
  const auto* const bytes = reinterpret_cast<const char*>(state + id * 3 * width);
  for (int64_t at = 0; at < 3 * width * static_cast<int64_t>(sizeof(T)); at += kCacheLine)
    __builtin_prefetch(bytes + at);
}

template <class T>
GNN_INLINE Row<T> row_at(T* state, int64_t width, int64_t id) {
  T* const first = state + id * 3 * width;
  return {.values = first, .m = first + width, .v = first + 2 * width, .width = width};
}

template <class T>
GNN_INLINE void read_replayed(const Reading<T>& in, int64_t last, const Row<const T>& row, T* out) {
  std::vector<T> moments(row.m, row.m + 2 * row.width);
  std::memcpy(out, row.values, static_cast<size_t>(row.width) * sizeof(T));
  replay<T>(
      *in.idle,
      last,
      {.values = out, .m = moments.data(), .v = moments.data() + row.width, .width = row.width}
  );
}

template <class T>
GNN_INLINE void read_some(const Reading<T>& in, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    if (i + kAhead < end) prefetch_row(in.state, in.last_steps, in.width, in.id(i + kAhead));
    const int64_t id = in.id(i);
    const Row<const T> row = row_at(in.state, in.width, id);
    T* const out = in.out + i * in.width;
    const int64_t last = in.last_steps == nullptr ? 0 : in.last_steps[id];
    if (last == 0 || last == in.idle->steps()) {
      std::memcpy(out, row.values, static_cast<size_t>(in.width) * sizeof(T));
    } else if (in.idle->must_replay(last)) {
      read_replayed(in, last, row, out);
    } else {
      read_moved(move_of<T>(*in.idle, last), row, out);
    }
  }
}

template <bool kFuse, class T>
GNN_INLINE void update_some(const Updating<T>& in, int64_t begin, int64_t end) {
  const Step<T> of_step = in.step;  // which no row can alias
  const auto now = in.idle == nullptr ? 0 : static_cast<int32_t>(in.idle->steps());
  for (int64_t i = begin; i < end; ++i) {
    if (i + kAhead < end) prefetch_row(in.state, in.last_steps, in.width, in.ids[i + kAhead]);
    const int64_t id = in.ids[i];
    const Row<T> row = row_at(in.state, in.width, id);
    const T* const gradient = in.gradients + i * in.width;
    if (!is_finite(gradient, in.width)) {
      int64_t least = in.first_bad_row->load(std::memory_order_relaxed);
      while (id < least && !in.first_bad_row->compare_exchange_weak(least, id)) {
      }
      continue;
    }
    if (in.last_steps == nullptr) {
      step_touched_row(of_step, row, gradient, in.factor);
      continue;
    }
    int32_t& last = in.last_steps[id];
    if (last != 0 && last != now) {
      if (in.idle->must_replay(last)) {
        replay(*in.idle, last, row);
      } else {
        move_row(move_of<T>(*in.idle, last), row);
      }
    }
    step_row<kFuse>(of_step, row, gradient, in.factor);
    last = now + 1;
  }
}

template <class T>
void read_base(const Reading<T>& in, int64_t begin, int64_t end) {
  read_some(in, begin, end);
}
template <class T>
GNN_AVX2_FMA void read_avx2(const Reading<T>& in, int64_t begin, int64_t end) {
  read_some(in, begin, end);
}
template <class T>
void update_base(const Updating<T>& in, int64_t begin, int64_t end) {
  update_some<false>(in, begin, end);
}
template <class T>
GNN_AVX2_FMA void update_avx2(const Updating<T>& in, int64_t begin, int64_t end) {
  update_some<true>(in, begin, end);
}

// ---- tensors

int64_t rows_per_task(int64_t width) {
  return std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, width));
}

template <class F>
void with_type(at::ScalarType type, const F& run) {
  switch (type) {
    case at::kFloat:
      return run(float{});
    case at::kDouble:
      return run(double{});
    default:
      TORCH_CHECK(false, "rows of a table: expected float32 or float64, found ", type);
  }
}

void check_table(const TableRows& table) {
  TORCH_CHECK(
      table.state.dim() == 3 && table.state.size(1) == 3 && table.state.is_contiguous() &&
          table.state.is_cpu(),
      "rows of a table: expected state [rows, 3, width] on the CPU, found ",
      table.state.sizes()
  );
  TORCH_CHECK(
      !table.last_steps.defined() ||
          (table.last_steps.scalar_type() == at::kInt &&
           table.last_steps.numel() == table.state.size(0) && table.last_steps.is_contiguous()),
      "rows of a table: expected last_steps int32 [",
      table.state.size(0),
      "]"
  );
}

void check_ids(const at::Tensor& ids, int64_t rows) {
  TORCH_CHECK(
      ids.dim() == 1 && ids.scalar_type() == at::kLong && ids.is_cpu() && ids.is_contiguous(),
      "rows of a table: expected ids int64 [K] on the CPU, found ",
      ids.scalar_type(),
      ' ',
      ids.sizes()
  );
  const auto* const id = ids.const_data_ptr<int64_t>();
  int64_t least = 0;
  for (int64_t i = 0; i < ids.numel(); ++i) {
    TORCH_CHECK(
        id[i] >= least && id[i] < rows,
        "rows of a table: expected ids that ascend, are unique and below ",
        rows,
        ", found ",
        id[i],
        " at ",
        i
    );
    least = id[i] + 1;
  }
}

at::Tensor read(
    const TableRows& table,
    const at::Tensor& ids,
    int64_t first_row,
    int64_t count,
    const IdleSteps* idle
) {
  TORCH_CHECK(
      table.last_steps.defined() == (idle != nullptr),
      "rows of a table: expected last_steps and the steps idle together"
  );
  const int64_t width = table.state.size(2);
  at::Tensor result = at::empty({count, width}, table.state.options());
  with_type(table.state.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const Reading<T> in{
        .state = table.state.const_data_ptr<T>(),
        .last_steps = idle == nullptr ? nullptr : table.last_steps.const_data_ptr<int32_t>(),
        .width = width,
        .ids = ids.defined() ? ids.const_data_ptr<int64_t>() : nullptr,
        .first_row = first_row,
        .out = result.mutable_data_ptr<T>(),
        .idle = idle,
    };
    auto* const some = has_avx2_and_fma() ? &read_avx2<T> : &read_base<T>;
    at::parallel_for(0, count, rows_per_task(width), [&](int64_t begin, int64_t end) {
      some(in, begin, end);
    });
  });
  return result;
}

// What both updates share; `idle` is null for SparseAdam.
struct Rule {
  const AdamOptions& options;
  AdamStep step;
  const IdleSteps* idle;
};

std::optional<int64_t> update(const TableRows& table, const RowGradients& mine, const Rule& rule) {
  check_table(table);
  check_ids(mine.ids, table.state.size(0));
  const int64_t count = mine.ids.numel();
  const int64_t width = table.state.size(2);
  TORCH_CHECK(
      mine.gradients.sizes() == at::IntArrayRef({count, width}) &&
          mine.gradients.scalar_type() == table.state.scalar_type() &&
          mine.gradients.is_contiguous() && mine.gradients.is_cpu(),
      "rows of a table: expected gradients ",
      table.state.scalar_type(),
      " [",
      count,
      ", ",
      width,
      "] on the CPU, found ",
      mine.gradients.scalar_type(),
      ' ',
      mine.gradients.sizes()
  );
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> first_bad_row{kNone};
  with_type(table.state.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const Updating<T> in{
        .state = table.state.mutable_data_ptr<T>(),
        .last_steps = rule.idle == nullptr ? nullptr : table.last_steps.mutable_data_ptr<int32_t>(),
        .width = width,
        .ids = mine.ids.const_data_ptr<int64_t>(),
        .gradients = mine.gradients.const_data_ptr<T>(),
        .factor = static_cast<T>(mine.factor),
        .idle = rule.idle,
        .step = Step<T>(rule.options, rule.step),
        .first_bad_row = &first_bad_row,
    };
    auto* const some = has_avx2_and_fma() ? &update_avx2<T> : &update_base<T>;
    at::parallel_for(0, count, rows_per_task(width), [&](int64_t begin, int64_t end) {
      some(in, begin, end);
    });
  });
  const int64_t bad = first_bad_row.load();
  return bad == kNone ? std::nullopt : std::optional(bad);
}

}  // namespace

at::Tensor read_rows(const TableRows& table, const at::Tensor& ids, const IdleSteps* idle) {
  check_table(table);
  check_ids(ids, table.state.size(0));
  return read(table, ids, 0, ids.numel(), idle);
}

at::Tensor read_range(const TableRows& table, int64_t begin, int64_t end, const IdleSteps* idle) {
  check_table(table);
  TORCH_CHECK(
      0 <= begin && begin <= end && end <= table.state.size(0),
      "rows of a table: expected a range within ",
      table.state.size(0),
      " rows, found ",
      begin,
      " to ",
      end
  );
  return read(table, {}, begin, end - begin, idle);
}

std::optional<int64_t> update_all_rows(
    const TableRows& table, const RowGradients& mine, const IdleSteps& idle, double learning_rate
) {
  TORCH_CHECK(
      table.last_steps.defined() && idle.steps() < std::numeric_limits<int32_t>::max(),
      "rows of a table: expected last_steps, and steps that it can count"
  );
  return update(
      table,
      mine,
      {.options = idle.options(),
       .step = adam_step(idle.options(), idle.steps() + 1, learning_rate),
       .idle = &idle}
  );
}

std::optional<int64_t> update_touched_rows(
    const TableRows& table, const RowGradients& mine, const AdamOptions& options, AdamStep step
) {
  step.step_size *= step.root;
  return update(table, mine, {.options = options, .step = step, .idle = nullptr});
}

}  // namespace gnn::embedding
