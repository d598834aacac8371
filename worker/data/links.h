#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/dataset_arrays.h"

#include <span>
#include <string>
#include <vector>

namespace gnn::data {

/// Begins the relation of a reverse edge type.
inline constexpr const char* kReversePrefix = "rev_";
inline constexpr const char* kPairsName = "links.pairs";

/// (destination, rev_relation, source)
EdgeTypeName reverse_of(const EdgeTypeName& name);

/// "(user, buys, item), (item, like, item)": all of the data set's.
std::string edge_types_text(const DatasetArrays& dataset);

/// Whether add_reverse() would leave the data set as it is. Trusts the reverse that its links name.
bool has_reverse_types(const DatasetArrays& dataset);

/// Adds the reverse of each edge type between two node types: the same edges with the same ids, from
/// destination to source. New types stand behind all others; those that are there stay.
/// Errors: Configuration if no edge type joins two node types, or an edge type has the name of a
/// reverse but other edges.
Result<DatasetArrays> add_reverse(
    DatasetArrays dataset, ArrayStorage& storage, ProgressBar& progress
);

/// As above, of these edge types alone, which exist (GNN_ASSERT).
Result<DatasetArrays> add_reverse(
    std::span<const EdgeTypeName> types,
    DatasetArrays dataset,
    ArrayStorage& storage,
    ProgressBar& progress
);

/// Removes the edge types that add_reverse() would make alike, and returns whose reverses they were.
/// One of such a name that has other edges, or features, stays. The data set must have no links
/// (GNN_ASSERT).
std::vector<EdgeTypeName> remove_reverse(DatasetArrays& dataset);

/// Checks that no edge type but the reverse that the links name has their edges from destination to
/// source: held-out links would pass messages along it.
/// Errors: Data.
Status check_reverse(const DatasetArrays& dataset);

/// Makes the edges of type `link` the links of the data set. Their ids become those of
/// number_links(), the array kPairsName is committed to `storage`, and the reverse is found: the
/// edge type itself if it is undirected, else the one that reverse_of() names, else one that has the
/// same edges and ids from destination to source.
/// Errors: Configuration without such an edge type, naming those that exist; Data if ids are not one
/// to one, or the edge type that reverse_of() names holds other edges; those of check_reverse().
Result<DatasetArrays> set_links(
    DatasetArrays dataset, const EdgeTypeName& link, ArrayStorage& storage, ProgressBar& progress
);

/// Whether set_links() would leave the data set as it is.
bool has_links(const DatasetArrays& dataset, const EdgeTypeName& link);

}  // namespace gnn::data
