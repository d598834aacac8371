#include "controller/objects/event.h"

#include "common/rfc3339.h"

#include <algorithm>

namespace gnn::objects {
namespace {

Result<ObjectReference> decode_reference(const Json& json, const std::string& path) {
  ObjectReference reference;
  ObjectReader reader(json, path);
  reader.read("apiVersion", reference.api_version);
  reader.read("kind", reference.kind);
  reader.read("namespace", reference.namespace_);
  reader.read("name", reference.name);
  reader.read("uid", reference.uid);
  reader.read("resourceVersion", reference.resource_version);
  return reader.finish(std::move(reference));
}

Result<TimePoint> decode_required_time(const Json& json, const std::string& path) {
  auto time = decode_time(json, path);
  if (!time) return tl::unexpected<Error>(std::move(time).error());
  return **time;
}

Result<std::optional<EventSeries>> decode_series(const Json& json, const std::string& path) {
  EventSeries series;
  ObjectReader reader(json, path);
  reader.read("count", series.count);
  reader.read_with("lastObservedTime", series.last_observed_time, decode_required_time);
  return reader.finish(std::optional(series));
}

Json encode(const ObjectReference& reference) {
  Json json = Json::object();
  put_unless_empty(json, "apiVersion", reference.api_version);
  put_unless_empty(json, "kind", reference.kind);
  put_unless_empty(json, "namespace", reference.namespace_);
  put_unless_empty(json, "name", reference.name);
  put_unless_empty(json, "uid", reference.uid);
  put_unless_empty(json, "resourceVersion", reference.resource_version);
  return json;
}

}  // namespace

Result<Event> decode_event(const Json& json) {
  Event event;
  ObjectReader reader(json, "");
  reader.require("metadata");
  reader.read_with("metadata", event.metadata, decode_meta);
  reader.read_with("eventTime", event.event_time, decode_required_time);
  reader.read("reportingController", event.reporting_controller);
  reader.read("reportingInstance", event.reporting_instance);
  reader.read("action", event.action);
  reader.read("type", event.type);
  reader.read("reason", event.reason);
  reader.read("note", event.note);
  reader.read_with("regarding", event.regarding, decode_reference);
  reader.read_with("series", event.series, decode_series);
  reader.read_with("deprecatedLastTimestamp", event.deprecated_last_timestamp, decode_time);
  return reader.finish(std::move(event));
}

Json encode(const Event& event) {
  Json json = {
      {"apiVersion", "events.k8s.io/v1"},
      {"kind", "Event"},
      {"metadata", encode(event.metadata)},
      {"eventTime", format_rfc3339_micro(event.event_time)},
      {"reportingController", event.reporting_controller},
      {"reportingInstance", event.reporting_instance},
      {"action", event.action},
      {"type", event.type},
      {"reason", event.reason},
      {"note", event.note},
      {"regarding", encode(event.regarding)},
  };
  if (event.series) {
    json["series"] = {
        {"count", event.series->count},
        {"lastObservedTime", format_rfc3339_micro(event.series->last_observed_time)},
    };
  }
  return json;
}

TimePoint last_time(const Event& event) {
  const TimePoint of_series = event.series ? event.series->last_observed_time : TimePoint{};
  return std::max(
      {event.event_time, of_series, event.deprecated_last_timestamp.value_or(TimePoint{})}
  );
}

}  // namespace gnn::objects
