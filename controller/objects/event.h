#pragma once

#include "controller/objects/meta.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gnn::objects {

struct ObjectReference {
  std::string api_version;
  std::string kind;
  std::string namespace_;
  std::string name;
  std::string uid;
  std::string resource_version;
  friend bool operator==(const ObjectReference&, const ObjectReference&) = default;
};

/// How often an event has occurred since it was first written.
struct EventSeries {
  int64_t count = 0;
  TimePoint last_observed_time{};
  friend bool operator==(const EventSeries&, const EventSeries&) = default;
};

/// events.k8s.io/v1 Event; `kubectl describe` shows it under its object.
struct Event {
  ObjectMeta metadata;
  TimePoint event_time{};
  std::string reporting_controller;
  std::string reporting_instance;
  std::string action;
  std::string type;    ///< Normal | Warning
  std::string reason;  ///< CamelCase, at most 128 characters
  std::string note;    ///< at most 1,024 bytes
  ObjectReference regarding;
  std::optional<EventSeries> series;
  /// Where recorders of core/v1, such as the kubelet's, say when it occurred last. Read only.
  std::optional<TimePoint> deprecated_last_timestamp;
  friend bool operator==(const Event&, const Event&) = default;
};

[[nodiscard]] Result<Event> decode_event(const Json& json);
[[nodiscard]] Json encode(const Event& event);

/// When it occurred last, as far as it tells.
[[nodiscard]] TimePoint last_time(const Event& event);

template <>
struct ResourceTraits<Event> {
  static constexpr std::string_view kGroup = "events.k8s.io";
  static constexpr std::string_view kVersion = "v1";
  static constexpr std::string_view kKind = "Event";
  static constexpr std::string_view kPlural = "events";
  [[nodiscard]] static Result<Event> decode(const Json& json) { return decode_event(json); }
};

}  // namespace gnn::objects
