#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/graph/dataset.h"
#include "worker/graph/share.h"

#include <string_view>

namespace gnn::graph {

/// What check_form() and check_contents() check of a data set's links, which it must have.
/// Errors: Data.
Status check_links_form(const Dataset& dataset, std::string_view where);
/// Each share looks at all links of its part and at all list entries of its part of the nodes, whose
/// lists must ascend by source and, for one source, by edge id. So no id is there twice without any
/// share knowing the ids of the others.
Status check_links(
    const Dataset& dataset,
    std::string_view where,
    Share share,
    ProgressBar& progress,
    const PartCheck& part = {}
);

}  // namespace gnn::graph
