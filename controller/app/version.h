#pragma once

namespace gnn::app {

inline constexpr const char* kProgramVersion = GNN_VERSION;

}  // namespace gnn::app
