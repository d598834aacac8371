#pragma once

#include "common/api/gnn_job.h"
#include "common/api/quantity.h"
#include "controller/objects/pod.h"

#include <cstdint>

namespace gnn::objects {

using api::Quantity;

/// What a pod asks of its machine, by resource: the requests of its containers, or their limits where they
/// have no request, as the API server fills in. Without what a RuntimeClass adds.
[[nodiscard]] api::ResourceList requests_of(const Pod& pod);

/// Adds `count` times the amounts of `each` to those of `sum`.
void add_resources(api::ResourceList& sum, const api::ResourceList& each, int64_t count);

}  // namespace gnn::objects
