#include "controller/objects/lease.h"

#include "common/rfc3339.h"

namespace gnn::objects {

Result<Lease> decode_lease(const Json& json) {
  Lease lease;
  ObjectReader reader(json, "");
  reader.require("metadata");
  reader.read_with("metadata", lease.metadata, decode_meta);
  const auto decode_spec = [&lease](const Json& spec, const std::string& path) -> Result<bool> {
    ObjectReader fields(spec, path);
    fields.read("holderIdentity", lease.holder_identity);
    fields.read("leaseDurationSeconds", lease.lease_duration_seconds);
    fields.read_with("acquireTime", lease.acquire_time, decode_time);
    fields.read_with("renewTime", lease.renew_time, decode_time);
    fields.read("leaseTransitions", lease.lease_transitions);
    return fields.finish(true);
  };
  bool has_spec = false;
  reader.read_with("spec", has_spec, decode_spec);
  lease.remainder = json;
  return reader.finish(std::move(lease));
}

Json encode(const Lease& lease) {
  Json json = lease.remainder.is_object() ? lease.remainder : Json::object();
  json["apiVersion"] = "coordination.k8s.io/v1";
  json["kind"] = "Lease";
  // Of an existing lease the remainder has more than lease.metadata keeps.
  if (!json.contains("metadata")) json["metadata"] = encode(lease.metadata);
  Json& spec = json["spec"];
  spec["holderIdentity"] = lease.holder_identity;
  spec["leaseTransitions"] = lease.lease_transitions;
  // The API server refuses a duration of 0; a lease that nobody ever held has none.
  if (lease.lease_duration_seconds > 0) spec["leaseDurationSeconds"] = lease.lease_duration_seconds;
  if (lease.acquire_time) spec["acquireTime"] = format_rfc3339_micro(*lease.acquire_time);
  if (lease.renew_time) spec["renewTime"] = format_rfc3339_micro(*lease.renew_time);
  return json;
}

}  // namespace gnn::objects
