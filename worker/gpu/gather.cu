#include "worker/gpu/cuda_error.h"
#include "worker/gpu/device_stream.cuh"
#include "worker/gpu/gather.h"
#include "worker/gpu/kernels/launch_shape.h"

#include <algorithm>

namespace gnn::gpu {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 20;

template <class Word>
void launch(const GatherTask& task, Stream stream) {
  const auto words = static_cast<int64_t>(task.row_bytes / sizeof(Word));
  const GatherRows<Word> body = {
      .rows = task.rows,
      .ids = task.ids,
      .size = task.size,
      .words = words,
      .lanes = lanes_for(words),
      // reinterpret_cast: rows are copied as words, whatever their type.
      .out = reinterpret_cast<Word*>(task.out)
  };
  const int64_t groups =
      (task.size + GatherRows<Word>::kRowsAtOnce - 1) / GatherRows<Word>::kRowsAtOnce;
  const int64_t most = task.most_reading_threads > 0
                           ? std::max<int64_t>(1, task.most_reading_threads / kThreads)
                           : kMostBlocks;
  DeviceStream(stream).launch(body, shape_for(groups * body.lanes, kThreads, most));
}

}  // namespace

Status gather_rows(const GatherTask& task, Stream stream) {
  if (task.size == 0 || task.row_bytes == 0) return {};
  return caught([&]() -> Status {
    with_word_of(task.rows, task.row_bytes, task.out, [&]<class Word>(Word) {
      launch<Word>(task, stream);
    });
    return {};
  });
}

}  // namespace gnn::gpu
