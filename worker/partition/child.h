#pragma once

#include "common/result.h"

#include <cstdint>
#include <functional>
#include <string>

namespace gnn::partition {

/// Runs `work` in a child process and waits for it. What it changes in memory stays there, except in
/// memory that both share. It must neither end threads nor free what was made before it. The child ends
/// with this process, and the kernel ends it first if memory runs out.
/// `memory_bytes`: that it may take beyond what this process has. `what` names the work in messages.
/// Errors: that of `work`; OutOfMemory if the child took more than it may, or was killed; Internal
/// naming the signal if it crashed.
Status run_in_child(
    const std::string& what, int64_t memory_bytes, const std::function<Status()>& work
);

}  // namespace gnn::partition
