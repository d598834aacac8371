#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"

#include <cstdint>
#include <span>

namespace gnn::data {

/// Whether edges are links, and what their ends are.
enum class LinkIds {
  No,
  BetweenTypes,  ///< sources and destinations are nodes of two types
  WithinType,    ///< of the same type
};

/// Numbers edges as links: from 0, without gaps, in the order of the ids they have. Edges within a
/// type are undirected if each has its reverse; both then get the smaller of their ids first, so
/// that an edge is in the lists twice under one id (a self-loop once).
/// Neighbour lists as CSC, ascending: indptr [nodes + 1], indices and ids [list entries].
/// Errors: Data if several edges have one id, or an id is negative or far beyond the number of edges.
Status number_links(
    std::span<const int64_t> indptr,
    std::span<const int32_t> indices,
    std::span<int64_t> ids,
    LinkIds kind
);
Status number_links(
    std::span<const int64_t> indptr,
    std::span<const int64_t> indices,
    std::span<int64_t> ids,
    LinkIds kind
);

/// Neighbour lists as CSC: indptr int64 [nodes + 1], indices int32 or int64 [list entries].
struct LinkLists {
  Array indptr;
  Array indices;
};
/// As above, in the memory that `storage` allows a step: larger lists are read in order, several times.
/// `ids`: int64 [list entries].
/// Errors: also those of build_csc().
Status number_links(
    const LinkLists& lists, Array ids, LinkIds kind, ArrayStorage& storage, ProgressBar& progress
);

}  // namespace gnn::data
