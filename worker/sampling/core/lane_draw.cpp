#include "worker/sampling/core/lane_draw.h"

#include "common/instruction_sets.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gnn::sampling::core {

#if defined(__x86_64__)

namespace {

// reinterpret_cast: what the intrinsics take.
GNN_INLINE GNN_AVX2 __m256i load_lanes(const int64_t* values) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
}
GNN_INLINE GNN_AVX2 void store_lanes(int64_t* values, __m256i lanes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(values), lanes);
}

struct WordLanes {
  __m256i words[4];
};

// Philox4x32::block of four counters {node, node >> 32, block, hop_lane}. Each word is the low half
// of its 64-bit lane; the products leave something in the high half, which nothing reads.
GNN_INLINE GNN_AVX2 WordLanes
philox_lanes(__m256i nodes, int64_t block, uint32_t hop_lane, Philox4x32::Key key) {
  const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53);
  const __m256i multiplier1 = _mm256_set1_epi64x(0xCD9E8D57);
  const __m256i key0_step = _mm256_set1_epi64x(0x9E3779B9);
  const __m256i key1_step = _mm256_set1_epi64x(0xBB67AE85);
  __m256i word0 = nodes;
  __m256i word1 = _mm256_srli_epi64(nodes, 32);
  __m256i word2 = _mm256_set1_epi64x(block);
  __m256i word3 = _mm256_set1_epi64x(hop_lane);
  __m256i key0 = _mm256_set1_epi64x(key[0]);
  __m256i key1 = _mm256_set1_epi64x(key[1]);
  for (int round = 0; round < 10; ++round) {
    const __m256i product0 = _mm256_mul_epu32(word0, multiplier0);
    const __m256i product1 = _mm256_mul_epu32(word2, multiplier1);
    word0 = _mm256_xor_si256(_mm256_srli_epi64(product1, 32), _mm256_xor_si256(word1, key0));
    word1 = product1;
    word2 = _mm256_xor_si256(_mm256_srli_epi64(product0, 32), _mm256_xor_si256(word3, key1));
    word3 = product0;
    key0 = _mm256_add_epi64(key0, key0_step);
    key1 = _mm256_add_epi64(key1, key1_step);
  }
  return {{word0, word1, word2, word3}};
}

}  // namespace

// NeighborDraw::by_scan, with CounterRng::below32 in it. A lane that may have to draw a word again is
// left out and drawn by draw_one(); so is one whose bound takes more than 32 bits, as that is above
// every low half.
GNN_AVX2 void LaneDraw::draw_lanes(size_t begin) {
  const __m256i low_half = _mm256_set1_epi64x(0xFFFFFFFF);
  const __m256i one = _mm256_set1_epi64x(1);
  const __m256i nodes = load_lanes(&nodes_[begin]);
  __m256i left_out = _mm256_setzero_si256();
  __m256i last = _mm256_sub_epi64(load_lanes(&degrees_[begin]), _mm256_set1_epi64x(count_));
  std::array<Lanes, kMaxCount> offsets;
  for (int64_t i = 0; i < count_; i += 4) {
    const WordLanes random = philox_lanes(nodes, i / 4, hop_lane_, key_);
    for (int64_t step = i; step < std::min(i + 4, count_); ++step) {
      const __m256i bound = _mm256_add_epi64(last, one);
      const __m256i product = _mm256_mul_epu32(random.words[step - i], bound);
      const __m256i low = _mm256_and_si256(product, low_half);
      left_out = _mm256_or_si256(left_out, _mm256_cmpgt_epi64(bound, low));
      const __m256i drawn = _mm256_srli_epi64(product, 32);
      __m256i taken = _mm256_setzero_si256();
      for (int64_t j = 0; j < step; ++j) {
        const __m256i other = load_lanes(offsets[static_cast<size_t>(j)].data());
        taken = _mm256_or_si256(taken, _mm256_cmpeq_epi64(other, drawn));
      }
      store_lanes(
          offsets[static_cast<size_t>(step)].data(), _mm256_blendv_epi8(drawn, last, taken)
      );
      last = bound;
    }
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    int64_t* const out = outs_[begin + lane];
    for (int64_t i = 0; i < count_; ++i)
      out[i] = firsts_[begin + lane] + offsets[static_cast<size_t>(i)][lane];
  }
  const auto mask = static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(left_out)));
  if (mask == 0) [[likely]]
    return;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1U) != 0) draw_one(begin + lane);
  }
}

#else

void LaneDraw::draw_lanes(size_t begin) {
  for (size_t at = begin; at < begin + kLanes; ++at) draw_one(at);
}

#endif

void LaneDraw::draw_one(size_t at) {
  NeighborDraw::by_scan(
      CounterRng(key_, hop_lane_, static_cast<uint64_t>(nodes_[at])),
      degrees_[at],
      count_,
      firsts_[at],
      outs_[at]
  );
}

void LaneDraw::flush() {
  size_t at = 0;
  if (has_avx2()) {
    for (; at + kLanes <= size_; at += kLanes) draw_lanes(at);
  }
  for (; at < size_; ++at) draw_one(at);
  size_ = 0;
}

}  // namespace gnn::sampling::core
