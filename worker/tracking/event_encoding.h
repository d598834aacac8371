#pragma once

#include "common/clock.h"
#include "worker/tracking/record.h"

#include <string>
#include <string_view>

/// Events as TensorBoard reads them, by hand: the few fields of protocol buffers that scalars need.
/// Source: tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto.
namespace gnn::tracking {

/// The first event of every file.
[[nodiscard]] std::string encode_file_version(TimePoint time);

/// A record as an event. One that starts a process is a SessionLog with status START, at which
/// TensorBoard drops the events of its step and of later ones that files before have.
[[nodiscard]] std::string encode_event(const Record& record);

/// An event as files have it: length, checksum of the length, event, checksum of the event.
/// Source: tensorflow/core/lib/io/record_writer.h.
[[nodiscard]] std::string frame(std::string_view event);

}  // namespace gnn::tracking
