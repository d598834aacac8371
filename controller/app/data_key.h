#pragma once

#include "common/result.h"

#include <string>

namespace gnn::app {

/// A job's data key: 256 bits of the system's generator for secrets, as 64 hexadecimal digits. It goes
/// into the job's Secret and nowhere else: into no log, event, status or cache.
/// Errors: Internal if the system has no random numbers.
[[nodiscard]] Result<std::string> draw_data_key();

/// The random part of that Secret's name: 128 bits more, as 32 hexadecimal digits.
/// Errors: as draw_data_key().
[[nodiscard]] Result<std::string> draw_data_key_suffix();

}  // namespace gnn::app
