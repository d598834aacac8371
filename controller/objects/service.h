#pragma once

#include "controller/objects/meta.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::objects {

struct ServicePort {
  std::string name;
  int64_t port = 0;
  friend bool operator==(const ServicePort&, const ServicePort&) = default;
};

struct ServiceSpec {
  std::string cluster_ip{};  ///< "None": headless
  bool publish_not_ready_addresses = false;
  std::map<std::string, std::string> selector{};
  std::vector<ServicePort> ports{};
  /// A decoded spec that is not kept, because no job controls the Service or it is larger than ours
  /// ever are. Ours is kept.
  bool is_left_out = false;
  friend bool operator==(const ServiceSpec&, const ServiceSpec&) = default;
};

struct Service {
  ObjectMeta metadata;
  ServiceSpec spec;
  friend bool operator==(const Service&, const Service&) = default;
};

[[nodiscard]] Result<Service> decode_service(const Json& json);
[[nodiscard]] Json encode(const Service& service);

template <>
struct ResourceTraits<Service> {
  static constexpr std::string_view kGroup = "";
  static constexpr std::string_view kVersion = "v1";
  static constexpr std::string_view kKind = "Service";
  static constexpr std::string_view kPlural = "services";
  [[nodiscard]] static Result<Service> decode(const Json& json) { return decode_service(json); }
};

}  // namespace gnn::objects
