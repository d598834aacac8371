#pragma once

#include "worker/gpu/kernels/device_array.h"
#include "worker/gpu/kernels/gather_rows.h"
#include "worker/gpu/kernels/launch_shape.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace gnn::gpu {

/// Rows to gather.
struct GatherTask {
  RowsView rows{};       ///< in memory of the GPU, or pinned memory of the host
  size_t row_bytes = 0;  ///< of `out`
  StoredRows stored = StoredRows::AsGathered;
  const int64_t* ids = nullptr;  ///< [size], in memory of the GPU
  int64_t size = 0;
  std::byte* out = nullptr;  ///< [size * row_bytes], in memory of the GPU
  /// Threads that read at once; 0: as many as the GPU runs. Host memory is read nearly as fast by
  /// fewer, which leaves the GPU to others.
  int64_t most_reading_threads = 0;
  uint32_t* first_bad = nullptr;  ///< as GatherRows::first_bad
};

inline constexpr int kGatherThreads = 256;  ///< of a block

/// `rows_at_once` rows for `lanes` threads.
[[nodiscard]] inline LaunchShape shape_of_rows(
    int64_t rows, int lanes, int rows_at_once, int64_t most_threads
) {
  constexpr int64_t kMostBlocks = 1 << 20;
  const int64_t groups = (rows + rows_at_once - 1) / rows_at_once;
  const int64_t most =
      most_threads > 0 ? std::max<int64_t>(1, most_threads / kGatherThreads) : kMostBlocks;
  return shape_for(groups * lanes, kGatherThreads, most);
}

/// Begins the gathering of `task`, whose ids the caller has checked where it gives no first_bad.
template <class Device>
void launch_gather(Device& device, const GatherTask& task) {
  if (task.size == 0 || task.row_bytes == 0) return;
  const auto launch = [&]<class Word, class Stored>(Word, Stored) {
    const auto words = static_cast<int64_t>(task.row_bytes / sizeof(Word));
    const GatherRows<Word, Stored> body = {
        .rows = task.rows,
        .ids = task.ids,
        .size = task.size,
        .words = words,
        .lanes = lanes_for(words),
        // reinterpret_cast: rows are copied as words, whatever their type.
        .out = reinterpret_cast<Word*>(task.out),
        .first_bad = task.first_bad
    };
    device.launch(
        body, shape_of_rows(task.size, body.lanes, body.kRowsAtOnce, task.most_reading_threads)
    );
  };
  if (task.stored == StoredRows::Floats) {
    with_rounded_words_of(task.rows, task.row_bytes, task.out, launch);
  } else {
    with_word_of(task.rows, task.row_bytes, task.out, [&]<class Word>(Word word) {
      launch(word, word);
    });
  }
}

/// Rows to put to their places among gathered ones.
struct ScatterTask {
  const GatherTask& task;           ///< what gathers those
  const std::byte* rows = nullptr;  ///< [size * row_bytes], in pinned memory of the host
  const int64_t* places = nullptr;  ///< [size], in memory of the GPU
  int64_t size = 0;
};

/// Begins it.
template <class Device>
void launch_scatter(Device& device, const ScatterTask& received) {
  const GatherTask& task = received.task;
  if (received.size == 0 || task.row_bytes == 0) return;
  const uintptr_t bits = bits_of(received.rows) | bits_of(task.out) | task.row_bytes;
  with_word_for(bits, [&]<class Word>(Word) {
    const auto words = static_cast<int64_t>(task.row_bytes / sizeof(Word));
    const int lanes = lanes_for(words);
    device.launch(
        ScatterRows<Word>{// reinterpret_cast: rows are copied as words, whatever their type.
                          .rows = reinterpret_cast<const Word*>(received.rows),
                          .places = received.places,
                          .size = received.size,
                          .words = words,
                          .lanes = lanes,
                          .out = reinterpret_cast<Word*>(task.out)
        },
        shape_of_rows(received.size, lanes, 1, task.most_reading_threads)
    );
  });
}

/// Rows that came from elsewhere, and where they go. Both are on the host.
struct ReceivedRows {
  const std::byte* rows = nullptr;    ///< in pinned memory
  std::span<const int64_t> places{};  ///< of each in the result
};

/// Gathers rows for one batch at a time: begin() gives it to the device, which does it in order, and
/// finish() waits for it.
template <class Device>
class GatherSteps {
 public:
  explicit GatherSteps(Device& device)
      : device_(device), staged_(device), copied_(device), first_bad_(device), found_(device) {}

  /// Gathers `task`, whose first_bad is ignored, and puts what was received to its places. The
  /// ids are `host_ids`, which may be reused at once, unless task.ids says where they are.
  void begin(GatherTask task, std::span<const int64_t> host_ids, const ReceivedRows& received) {
    const auto num_ids = static_cast<int64_t>(host_ids.size());
    const auto num_places = static_cast<int64_t>(received.places.size());
    stage(host_ids, received.places);
    if (num_ids > 0) {
      task.ids = copied_.data();
      task.size = num_ids;
    }
    first_bad_.reserve(1);
    first_bad_.fill(0xFF);
    task.first_bad = first_bad_.data();
    launch_gather(device_, task);
    launch_scatter(
        device_,
        {.task = task, .rows = received.rows, .places = copied_.data() + num_ids, .size = num_places
        }
    );
    found_.reserve(1);
    device_.download(found_.data(), first_bad_.data(), sizeof(uint32_t));
  }

  /// The position of the first id that is none, or -1.
  [[nodiscard]] int64_t finish() {
    device_.wait();
    const uint32_t found = *found_.data();
    return found == std::numeric_limits<uint32_t>::max() ? -1 : int64_t{found};
  }

 private:
  void stage(std::span<const int64_t> ids, std::span<const int64_t> places) {
    const size_t size = ids.size() + places.size();
    staged_.reserve(static_cast<int64_t>(size));
    copied_.reserve(static_cast<int64_t>(size));
    std::copy(ids.begin(), ids.end(), staged_.data());
    std::copy(places.begin(), places.end(), staged_.data() + ids.size());
    device_.upload(copied_.data(), staged_.data(), size * sizeof(int64_t));
  }

  Device& device_;
  PinnedArray<Device, int64_t> staged_;  // ids and places, on their way
  DeviceArray<Device, int64_t> copied_;
  DeviceArray<Device, uint32_t> first_bad_;
  PinnedArray<Device, uint32_t> found_;
};

}  // namespace gnn::gpu
