#include "worker/nn/cpu/bfloat16_products.h"

#include "worker/nn/cpu/simd.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#define GNN_BFLOAT16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#else
#define GNN_BFLOAT16
#endif

namespace gnn::nn::cpu {
namespace {

using c10::BFloat16;

// Two bfloat16 that are multiplied and summed together, the first in the low half.
using Pair = uint32_t;

// Rows of x at once: their sums stay in the L1 cache.
constexpr int64_t kRowBlock = 32;
// Rows that one call sums over; fewer are filled up with zeros.
constexpr int64_t kSumBlock = 256;
constexpr int64_t kSmallSumBlock = 32;
// Rows that are summed by one thread; the sums of these chunks are added in their order.
constexpr int64_t kSumChunk = 2048;
constexpr int64_t kMostChunks = 32;

const BFloat16* data_of(const at::Tensor& tensor) {
  return tensor.const_data_ptr<BFloat16>();
}

const BFloat16* as_elements(const Pair* pairs) {
  return reinterpret_cast<const BFloat16*>(pairs);
}

Pair pair_of(BFloat16 first, BFloat16 second) {
  return static_cast<Pair>(first.x) | static_cast<Pair>(second.x) << 16;
}

// c = a · b, or c += a · b, of one block. The sums run over pairs of rows of b.
struct Block {
  int64_t rows = 0;     // of a
  int64_t columns = 0;  // of b
  int64_t sums = 0;     // columns of a: even
};

void multiply(
    const Block& block, const BFloat16* a, int64_t a_stride, const Pair* b, float* c, bool add
) {
  at::native::cpublas::brgemm(
      block.rows,
      block.columns,
      block.sums,
      a_stride,
      block.columns,
      block.columns,
      add,
      a,
      as_elements(b),
      c,
      /*is_vnni=*/true
  );
}

bool multiplies_bfloat16() {
#if defined(__x86_64__) && defined(CPUBLAS_BRGEMM_BF16BF16F32)
  if (!at::hasMKLDNN() || __builtin_cpu_supports("avx512bf16") == 0) return false;
  // oneDNN can be told to use less than the processor has.
  try {
    const std::array<Pair, 1> ones{pair_of(BFloat16(1.F), BFloat16(1.F))};
    float sum = 0;
    multiply(
        {.rows = 1, .columns = 1, .sums = 2}, as_elements(ones.data()), 2, ones.data(), &sum, false
    );
    at::native::cpublas::brgemm_release();
    return sum == 2;
  } catch (const c10::Error&) {
    return false;
  }
#else
  return false;
#endif
}

// w [K, M] as pairs of its rows, [(K + 1) / 2, M]; a last row without another is paired with zeros.
std::vector<Pair> pairs_of_rows(const at::Tensor& w) {
  const int64_t rows = w.size(0);
  const int64_t columns = w.size(1);
  const at::Tensor dense = w.contiguous();
  const BFloat16* data = data_of(dense);
  std::vector<Pair> pairs(static_cast<size_t>((rows + 1) / 2 * columns));
  for (int64_t row = 0; row < rows; row += 2) {
    const BFloat16* first = data + row * columns;
    Pair* out = pairs.data() + row / 2 * columns;
    for (int64_t k = 0; k < columns; ++k)
      out[k] = pair_of(first[k], row + 1 < rows ? first[columns + k] : BFloat16(0.F));
  }
  return pairs;
}

GNN_BFLOAT16 void round_to(BFloat16* out, const float* values, int64_t size) {
  for (int64_t i = 0; i < size; ++i) out[i] = store<BFloat16>(values[i]);
}

// One product of sum_of_products(), ready to be multiplied block by block.
struct Operand {
  const BFloat16* x = nullptr;
  int64_t width = 0;
  std::vector<Pair> w;
};

// Multiplies blocks of rows; of one thread.
class RowMultiplier {
 public:
  RowMultiplier(const std::vector<Operand>& operands, const float* bias, int64_t columns)
      : operands_(operands), bias_(bias), columns_(columns) {}

  // Sums of rows [begin, begin + rows) into `sums`.
  void run(int64_t begin, int64_t rows, float* sums) {
    for (int64_t row = 0; bias_ != nullptr && row < rows; ++row)
      std::copy_n(bias_, columns_, sums + row * columns_);
    bool add = bias_ != nullptr;
    for (const Operand& operand : operands_) {
      const int64_t even = operand.width + operand.width % 2;
      multiply(
          {.rows = rows, .columns = columns_, .sums = even},
          even_rows(operand, begin, rows),
          even,
          operand.w.data(),
          sums,
          add
      );
      add = true;
    }
  }

 private:
  // A row of odd width would be read together with the first element of the next.
  const BFloat16* even_rows(const Operand& operand, int64_t begin, int64_t rows) {
    const BFloat16* x = operand.x + begin * operand.width;
    if (operand.width % 2 == 0) return x;
    const int64_t even = operand.width + 1;
    padded_.assign(static_cast<size_t>(rows * even), BFloat16(0.F));
    for (int64_t row = 0; row < rows; ++row)
      std::copy_n(x + row * operand.width, operand.width, padded_.data() + row * even);
    return padded_.data();
  }

  const std::vector<Operand>& operands_;
  const float* bias_;
  int64_t columns_;
  std::vector<BFloat16> padded_;
};

// Calls block(first row, rows) for blocks of kRowBlock rows, the last cut into powers of two: oneDNN
// compiles a kernel for each number of rows.
template <class Run>
void for_each_row_block(int64_t begin, int64_t end, const Run& run) {
  int64_t size = kRowBlock;
  while (begin < end) {
    while (size > end - begin) size /= 2;
    run(begin, size);
    begin += size;
  }
}

void sum_blocks(const std::vector<Operand>& operands, const float* bias, const at::Tensor& out) {
  const int64_t rows = out.size(0);
  const int64_t columns = out.size(1);
  const bool rounds = out.scalar_type() == at::kBFloat16;
  const int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
  at::parallel_for(0, blocks, 4, [&](int64_t first, int64_t last) {
    RowMultiplier multiplier(operands, bias, columns);
    std::vector<float> sums(static_cast<size_t>(rounds ? kRowBlock * columns : 0));
    for_each_row_block(
        first * kRowBlock,
        std::min(last * kRowBlock, rows),
        [&](int64_t begin, int64_t size) {
          if (!rounds) {
            multiplier.run(begin, size, out.mutable_data_ptr<float>() + begin * columns);
            return;
          }
          multiplier.run(begin, size, sums.data());
          round_to(out.mutable_data_ptr<BFloat16>() + begin * columns, sums.data(), size * columns);
        }
    );
    at::native::cpublas::brgemm_release();
  });
}

// Rows [begin, begin + rows) of a matrix.
struct Rows {
  const BFloat16* data = nullptr;
  int64_t count = 0;
  int64_t width = 0;

  [[nodiscard]] const BFloat16* row(int64_t index) const {
    return index < count ? data + index * width : nullptr;
  }
};

Rows rows_of(const at::Tensor& matrix, int64_t begin, int64_t count) {
  return {
      .data = data_of(matrix) + begin * matrix.size(1), .count = count, .width = matrix.size(1)
  };
}

// Pairs of rows, [padded / 2, width], with zeros beyond the last row. Adds the rows to `sums`.
GNN_BFLOAT16 void pair_rows(const Rows& rows, int64_t padded, Pair* pairs, float* sums) {
  for (int64_t row = 0; row < padded; row += 2) {
    Pair* const out = pairs + row / 2 * rows.width;
    const BFloat16* const first = rows.row(row);
    const BFloat16* const second = rows.row(row + 1);
    if (first == nullptr) {
      std::fill_n(out, rows.width, Pair{0});
    } else if (second == nullptr) {
      for (int64_t k = 0; k < rows.width; ++k) out[k] = first[k].x;
    } else {
      for (int64_t k = 0; k < rows.width; ++k)
        out[k] = static_cast<Pair>(first[k].x) | static_cast<Pair>(second[k].x) << 16;
    }
    for (int64_t k = 0; k < rows.width; ++k) {
      sums[k] += std::bit_cast<float>(out[k] << 16);
      sums[k] += std::bit_cast<float>(out[k] & 0xffff0000U);
    }
  }
}

constexpr int64_t kLanes = 16;

struct Lanes {
  Pair v __attribute__((vector_size(kLanes * sizeof(Pair))));
};
using Tile = std::array<Lanes, kLanes>;

// Row r = (r3 r2 r1 r0) and column c = (c3 c2 c1 c0), in bits, become row (r2 r1 r0 c3) and column
// (c2 c1 c0 r3): done four times, they change places.
GNN_BFLOAT16 void rotate(const Tile& in, Tile& out) {
  for (size_t i = 0; i < kLanes / 2; ++i) {
    const Lanes& a = in[i];
    const Lanes& b = in[i + kLanes / 2];
    out[2 * i].v =
        __builtin_shufflevector(a.v, b.v, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    out[2 * i + 1].v = __builtin_shufflevector(
        a.v, b.v, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
    );
  }
}

// Pairs of the rows from 2 * first on, of the columns [column, column + width).
GNN_INLINE void load_pairs(
    const Rows& rows, int64_t first, int64_t column, int64_t width, Tile& tile
) {
  for (int64_t i = 0; i < kLanes; ++i) {
    std::array<Pair, kLanes> pairs{};
    const BFloat16* const even = rows.row(2 * (first + i));
    const BFloat16* const odd = rows.row(2 * (first + i) + 1);
    for (int64_t k = 0; even != nullptr && k < width; ++k)
      pairs[static_cast<size_t>(k)] = even[column + k].x;
    for (int64_t k = 0; odd != nullptr && k < width; ++k)
      pairs[static_cast<size_t>(k)] |= static_cast<Pair>(odd[column + k].x) << 16;
    std::memcpy(&tile[static_cast<size_t>(i)], pairs.data(), sizeof pairs);
  }
}

// The transposed rows, [width, padded] elements, with zeros beyond the last row.
GNN_BFLOAT16 void transpose_rows(const Rows& rows, int64_t padded, Pair* out) {
  const int64_t num_pairs = padded / 2;
  for (int64_t column = 0; column < rows.width; column += kLanes) {
    const int64_t width = std::min(kLanes, rows.width - column);
    for (int64_t first = 0; first < num_pairs; first += kLanes) {
      Tile tile;
      Tile other;
      if (width == kLanes) {
        load_pairs(rows, first, column, kLanes, tile);  // a constant: vector instructions
      } else {
        load_pairs(rows, first, column, width, tile);
      }
      rotate(tile, other);
      rotate(other, tile);
      rotate(tile, other);
      rotate(other, tile);
      for (int64_t k = 0; k < width; ++k)
        std::memcpy(
            out + (column + k) * num_pairs + first, &tile[static_cast<size_t>(k)], sizeof(Lanes)
        );
    }
  }
}

int64_t padded_rows(int64_t rows) {
  return rows <= kSmallSumBlock ? kSmallSumBlock : kSumBlock;
}

// Where the sums of one chunk of rows go: for each b the sum of bᵀ · a, [K, M], and then the sum of
// a's rows, [M].
class ChunkSums {
 public:
  ChunkSums(const at::Tensor& a, std::span<const at::Tensor> bs) : a_(a), bs_(bs) {
    int64_t widest = 0;
    for (const at::Tensor& b : bs) widest = std::max(widest, b.size(1));
    pairs_.resize(static_cast<size_t>(kSumBlock / 2 * a.size(1)));
    transposed_.resize(static_cast<size_t>(kSumBlock / 2 * widest));
  }

  void run(int64_t begin, int64_t end, float* sums) {
    const int64_t columns = a_.size(1);
    float* const row_sums = sums + [&] {
      int64_t size = 0;
      for (const at::Tensor& b : bs_) size += b.size(1) * columns;
      return size;
    }();
    std::fill_n(row_sums, columns, 0.F);
    for (int64_t row = begin; row < end; row += kSumBlock) {
      const int64_t count = std::min(kSumBlock, end - row);
      const int64_t padded = padded_rows(count);
      pair_rows(rows_of(a_, row, count), padded, pairs_.data(), row_sums);
      float* out = sums;
      for (const at::Tensor& b : bs_) {
        transpose_rows(rows_of(b, row, count), padded, transposed_.data());
        multiply(
            {.rows = b.size(1), .columns = columns, .sums = padded},
            as_elements(transposed_.data()),
            padded,
            pairs_.data(),
            out,
            row > begin
        );
        out += b.size(1) * columns;
      }
    }
  }

 private:
  const at::Tensor& a_;
  std::span<const at::Tensor> bs_;
  std::vector<Pair> pairs_;
  std::vector<Pair> transposed_;
};

// Adds the rows of `sums` to the first, in their order.
void add_chunks(const at::Tensor& sums) {
  const int64_t chunks = sums.size(0);
  const int64_t size = sums.size(1);
  auto* const first = sums.mutable_data_ptr<float>();
  at::parallel_for(0, size, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = 1; chunk < chunks; ++chunk) {
      const float* const more = first + chunk * size;
      for (int64_t i = begin; i < end; ++i) first[i] += more[i];
    }
  });
}

}  // namespace

bool has_bfloat16_products() {
  static const bool kHas = multiplies_bfloat16();
  return kHas && at::globalContext().userEnabledMkldnn();
}

void sum_of_products(
    std::span<const Bfloat16Product> products, const at::Tensor& bias, const at::Tensor& out
) {
  std::vector<Operand> operands;
  for (const Bfloat16Product& product : products) {
    operands.push_back(
        {.x = data_of(product.x), .width = product.x.size(1), .w = pairs_of_rows(product.w)}
    );
  }
  sum_blocks(operands, bias.defined() ? bias.const_data_ptr<float>() : nullptr, out);
}

SumsOverRows sums_over_rows(const at::Tensor& a, std::span<const at::Tensor> bs) {
  const int64_t rows = a.size(0);
  const int64_t columns = a.size(1);
  int64_t size = columns;
  for (const at::Tensor& b : bs) size += b.size(1) * columns;
  const int64_t least = (rows + kMostChunks - 1) / kMostChunks;
  const int64_t chunk = std::max(kSumChunk, (least + kSumBlock - 1) / kSumBlock * kSumBlock);
  const int64_t chunks = (rows + chunk - 1) / chunk;
  const at::Tensor sums = at::empty({chunks, size}, a.options().dtype(at::kFloat));
  at::parallel_for(0, chunks, 1, [&](int64_t first, int64_t last) {
    ChunkSums own(a, bs);
    for (int64_t i = first; i < last; ++i)
      own.run(
          i * chunk, std::min((i + 1) * chunk, rows), sums.mutable_data_ptr<float>() + i * size
      );
    at::native::cpublas::brgemm_release();
  });
  add_chunks(sums);
  SumsOverRows result;
  int64_t offset = 0;
  const at::Tensor all = sums.select(0, 0);
  for (const at::Tensor& b : bs) {
    const int64_t count = b.size(1) * columns;
    result.products.push_back(
        all.narrow(0, offset, count).view({b.size(1), columns}).t().contiguous()
    );
    offset += count;
  }
  result.rows = all.narrow(0, offset, columns).clone();
  return result;
}

}  // namespace gnn::nn::cpu
