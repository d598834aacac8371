#include "controller/objects/secret.h"

namespace gnn::objects {

Json encode(const Secret& secret) {
  return {
      {"apiVersion", "v1"},
      {"kind", "Secret"},
      {"metadata", encode(secret.metadata)},
      {"type", "Opaque"},
      {"immutable", true},
      {"stringData", secret.data},
  };
}

}  // namespace gnn::objects
