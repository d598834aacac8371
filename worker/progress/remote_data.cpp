#include "worker/progress/remote_data.h"

namespace gnn::progress {

std::string_view to_string(DataKind kind) {
  switch (kind) {
    case DataKind::Hops:
      return "hops";
    case DataKind::Features:
      return "features";
    case DataKind::Labels:
      return "labels";
    case DataKind::Layers:
      return "layers";
  }
  return "";
}

}  // namespace gnn::progress
