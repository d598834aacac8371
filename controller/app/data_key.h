#pragma once

#include "common/result.h"

#include <string>

namespace gnn::app {

/// A job's data key: 256 bits of the system's generator for secrets, as 64 hexadecimal digits. It goes
/// into the job's ConfigMap and nowhere else: into no log, event, status or cache.
/// Errors: Internal if the system has no random numbers.
[[nodiscard]] Result<std::string> draw_data_key();

}  // namespace gnn::app
