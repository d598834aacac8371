#include "worker/data/link_dataset.h"

#include "worker/data/links.h"

#include <utility>

namespace gnn::data {

Result<DatasetArrays> link_dataset(
    const EdgeSource& edges, const LinkType& type, ArrayStorage& storage, ProgressBar& progress
) {
  const CscOptions options{
      .num_sources = type.num_sources, .num_destinations = type.num_destinations, .edge_ids = true
  };
  GNN_ASSIGN_OR_RETURN(
      CscArrays csc, build_csc(edges, options, storage, array_prefix(type.name), progress)
  );
  DatasetArrays dataset;
  dataset.node_tables.push_back(
      {.name = type.name.source, .num_nodes = type.num_sources, .features = {}, .labels = {}}
  );
  dataset.node_tables.push_back(
      {.name = type.name.destination,
       .num_nodes = type.num_destinations,
       .features = {},
       .labels = {}}
  );
  dataset.edge_tables.push_back(
      {.source = type.name.source,
       .relation = type.name.relation,
       .destination = type.name.destination,
       .indptr = std::move(csc.indptr),
       .indices = std::move(csc.indices),
       .edge_ids = std::move(csc.edge_ids),
       .features = {}}
  );
  dataset.target_node_type = type.name.source;
  return set_links(std::move(dataset), type.name, storage, progress);
}

}  // namespace gnn::data
