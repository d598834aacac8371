#include "controller/objects/service.h"

#include "controller/objects/footprint.h"

namespace gnn::objects {
namespace {

constexpr int64_t kMaxServiceSpecBytes = 4096;

Result<ServicePort> decode_port(const Json& json, const std::string& path) {
  ServicePort port;
  ObjectReader reader(json, path);
  reader.read("name", port.name);
  reader.read("port", port.port);
  return reader.finish(std::move(port));
}

Result<ServiceSpec> decode_service_spec(const Json& json, const std::string& path) {
  ServiceSpec spec;
  ObjectReader reader(json, path);
  reader.read("clusterIP", spec.cluster_ip);
  reader.read("publishNotReadyAddresses", spec.publish_not_ready_addresses);
  reader.read("selector", spec.selector);
  reader.read_list("ports", spec.ports, decode_port);
  return reader.finish(std::move(spec));
}

}  // namespace

Result<Service> decode_service(const Json& json) {
  Service service;
  ObjectReader reader(json, "");
  reader.require("metadata");
  reader.read_with("metadata", service.metadata, decode_meta);
  reader.read_with("spec", service.spec, decode_service_spec);
  if (!is_controlled_by_job(service.metadata) || bytes_of(service.spec) > kMaxServiceSpecBytes) {
    service.spec = ServiceSpec{.is_left_out = true};
  }
  return reader.finish(std::move(service));
}

Json encode(const Service& service) {
  Json spec = {{"publishNotReadyAddresses", service.spec.publish_not_ready_addresses}};
  put_unless_empty(spec, "clusterIP", service.spec.cluster_ip);
  put_unless_empty(spec, "selector", service.spec.selector);
  for (const ServicePort& port : service.spec.ports) {
    spec["ports"].push_back(Json{{"name", port.name}, {"port", port.port}, {"protocol", "TCP"}});
  }
  return Json{
      {"apiVersion", "v1"},
      {"kind", "Service"},
      {"metadata", encode(service.metadata)},
      {"spec", std::move(spec)},
  };
}

}  // namespace gnn::objects
