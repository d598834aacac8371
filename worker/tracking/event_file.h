#pragma once

#include "common/clock.h"
#include "common/result.h"
#include "worker/progress/tracking_data.h"
#include "worker/rendezvous/rendezvous.h"
#include "worker/tracking/tracker.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace gnn::tracking {

/// One process's file of events for TensorBoard, in a folder of its job. Files sort in the order of
/// attempts and rounds, as TensorBoard reads them.
class EventFile final : public Tracker {
 public:
  /// Makes `folder`, if its parent exists, and <job>-<uid>/events.out.tfevents.a000001-r0000 in it, and
  /// writes the file's first event.
  /// Errors: Configuration with path and reason.
  [[nodiscard]] static Result<std::unique_ptr<EventFile>> create(
      const std::filesystem::path& folder,
      const std::string& job,
      const rendezvous::Incarnation& incarnation,
      TimePoint now
  );
  ~EventFile() override;
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// Appends events; if that fails, the file ends with the last whole one.
  /// Errors: Io with path and reason.
  [[nodiscard]] Status write(std::span<const Record> records, MonotonicPoint deadline) override;
  [[nodiscard]] Status close(RunEnd end, MonotonicPoint deadline) override;

 private:
  EventFile(std::filesystem::path path, int file);
  [[nodiscard]] Status append(std::string_view bytes);

  std::filesystem::path path_;
  int file_;
  int64_t bytes_ = 0;  // of whole events
};

}  // namespace gnn::tracking
