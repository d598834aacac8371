#pragma once

#include "controller/objects/meta.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gnn::objects {

/// coordination.k8s.io/v1 Lease. It is updated as a whole, so `remainder` keeps what we don't read.
struct Lease {
  ObjectMeta metadata;
  std::string holder_identity;  ///< empty: nobody holds it
  int64_t lease_duration_seconds = 0;
  std::optional<TimePoint> acquire_time;
  std::optional<TimePoint> renew_time;
  int64_t lease_transitions = 0;
  Json remainder;  ///< the object as it was read; encode() writes the fields above over it
};

[[nodiscard]] Result<Lease> decode_lease(const Json& json);
[[nodiscard]] Json encode(const Lease& lease);

template <>
struct ResourceTraits<Lease> {
  static constexpr std::string_view kGroup = "coordination.k8s.io";
  static constexpr std::string_view kVersion = "v1";
  static constexpr std::string_view kKind = "Lease";
  static constexpr std::string_view kPlural = "leases";
  [[nodiscard]] static Result<Lease> decode(const Json& json) { return decode_lease(json); }
};

}  // namespace gnn::objects
