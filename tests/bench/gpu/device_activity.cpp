#include "tests/bench/gpu/device_activity.h"

#include <algorithm>
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace gnn::bench {
namespace {

struct Interval {
  uint64_t begin = 0;  // ns
  uint64_t end = 0;
};

struct Records {
  std::mutex mutex;
  std::vector<Interval> kernels;
  std::vector<Interval> copies;
  double copied_bytes = 0;
};

Records& records() {
  static Records all;
  return all;
}

void check(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  throw std::runtime_error(std::string(what) + ": " + (text == nullptr ? "failed" : text));
}

constexpr size_t kBufferBytes = size_t{8} << 20;

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;
}

void add(const CUpti_Activity& record) {
  Records& all = records();
  if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    // reinterpret_cast: CUPTI's records begin alike and differ by kind.
    const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
    all.kernels.push_back({kernel.start, kernel.end});
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
    if (copy.copyKind != CUPTI_ACTIVITY_MEMCPY_KIND_HTOD) return;
    all.copies.push_back({copy.start, copy.end});
    all.copied_bytes += static_cast<double>(copy.bytes);
  }
}

void CUPTIAPI take_buffer(
    CUcontext /*context*/, uint32_t /*stream*/, uint8_t* buffer, size_t /*size*/, size_t valid
) {
  const std::lock_guard lock(records().mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) add(*record);
  std::free(buffer);
}

double seconds(uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

double sum_of(const std::vector<Interval>& intervals) {
  double sum = 0;
  for (const Interval& each : intervals) sum += seconds(each.end - each.begin);
  return sum;
}

// Overlapping intervals joined, ascending.
std::vector<Interval> joined(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
    return a.begin < b.begin;
  });
  std::vector<Interval> result;
  for (const Interval& each : intervals) {
    if (!result.empty() && each.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, each.end);
    } else {
      result.push_back(each);
    }
  }
  return result;
}

// Of two lists that joined() made.
double common_seconds(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  double sum = 0;
  size_t j = 0;
  for (const Interval& each : a) {
    while (j < b.size() && b[j].end <= each.begin) ++j;
    for (size_t k = j; k < b.size() && b[k].begin < each.end; ++k)
      sum += seconds(std::min(each.end, b[k].end) - std::max(each.begin, b[k].begin));
  }
  return sum;
}

constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY
};

}  // namespace

void start_recording() {
  static std::once_flag registered;
  std::call_once(registered, [] {
    check(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "CUPTI's callbacks");
  });
  cudaDeviceSynchronize();
  for (const CUpti_ActivityKind kind : kKinds) check(cuptiActivityEnable(kind), "CUPTI's records");
}

DeviceActivity stop_recording() {
  cudaDeviceSynchronize();
  check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "CUPTI's flush");
  for (const CUpti_ActivityKind kind : kKinds) check(cuptiActivityDisable(kind), "CUPTI's records");
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  const std::vector<Interval> busy = joined(all.kernels);
  DeviceActivity activity{
      .kernel_seconds = sum_of(all.kernels),
      .busy_seconds = sum_of(busy),
      .copy_seconds = sum_of(all.copies),
      .copied_bytes = all.copied_bytes,
      .overlapped_seconds = common_seconds(joined(all.copies), busy),
      .kernels = static_cast<int64_t>(all.kernels.size()),
  };
  all.kernels.clear();
  all.copies.clear();
  all.copied_bytes = 0;
  return activity;
}

}  // namespace gnn::bench
