#include "controller/objects/config_map.h"

namespace gnn::objects {

Result<ConfigMap> decode_config_map(const Json& json) {
  ConfigMap config_map;
  ObjectReader reader(json, "");
  reader.require("metadata");
  reader.read_with("metadata", config_map.metadata, decode_meta);
  return reader.finish(std::move(config_map));
}

Json encode(const ConfigMap& config_map) {
  Json json = {
      {"apiVersion", "v1"},
      {"kind", "ConfigMap"},
      {"metadata", encode(config_map.metadata)},
      {"data", config_map.data},
  };
  if (config_map.immutable) json["immutable"] = true;
  return json;
}

}  // namespace gnn::objects
