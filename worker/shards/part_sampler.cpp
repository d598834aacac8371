#include "worker/shards/part_sampler.h"

#include "worker/sampling/sample_parts.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <string>
#include <utility>

namespace gnn::shards {
namespace {

using sampling::core::RelationView;

RelationView view_of(const PartRelation& relation, size_t place) {
  RelationView view;
  view.indptr = relation.lists.indptr.const_data_ptr<int64_t>();
  if (relation.lists.indices.scalar_type() == at::kInt) {
    view.indices32 = relation.lists.indices.const_data_ptr<int32_t>();
  } else {
    view.indices64 = relation.lists.indices.const_data_ptr<int64_t>();
  }
  if (relation.lists.edge_ids.defined())
    view.edge_ids = relation.lists.edge_ids.const_data_ptr<int64_t>();
  view.first_node = relation.lists.nodes.begin;
  view.source_type = static_cast<int>(relation.source_type);
  view.destination_type = static_cast<int>(relation.destination_type);
  if (relation.ends.defined()) view.ends = relation.ends.const_data_ptr<int64_t>();
  view.lane =
      static_cast<uint32_t>(relation.lane < 0 ? static_cast<int64_t>(place) : relation.lane);
  view.fanout = relation.fanout;
  return view;
}

// Of the lists of the part's own nodes; others are never drawn from.
Status check_lists(const Part& part, const PartRelation& relation, const std::string& where) {
  const PartLists& lists = relation.lists;
  const auto types = static_cast<int64_t>(part.num_nodes().size());
  for (const int64_t type : {relation.source_type, relation.destination_type}) {
    if (type < 0 || type >= types) {
      return fail(
          ErrorKind::Data,
          where + "node type " + std::to_string(type) + " is not one of " + std::to_string(types)
      );
    }
  }
  const data::IdRange own = part.own(relation.destination_type);
  if (lists.nodes.begin > own.begin || lists.nodes.end < own.end ||
      lists.num_sources != part.num_nodes()[static_cast<size_t>(relation.source_type)]) {
    return fail(
        ErrorKind::Data,
        where + "expected lists of the nodes [" + std::to_string(own.begin) + ", " +
            std::to_string(own.end) + ") with " +
            std::to_string(part.num_nodes()[static_cast<size_t>(relation.source_type)]) +
            " sources, found [" + std::to_string(lists.nodes.begin) + ", " +
            std::to_string(lists.nodes.end) + ") with " + std::to_string(lists.num_sources)
    );
  }
  return sampling::check_ends(
      lists.indptr,
      relation.ends,
      {.begin = own.begin - lists.nodes.begin, .end = own.end - lists.nodes.begin},
      where
  );
}

int64_t largest_fanout(const SamplerSpec& spec) {
  int64_t largest = 1;
  for (const int64_t fanout : spec.options.fanout) largest = std::max(largest, fanout);
  for (const PartRelation& relation : spec.relations) {
    for (const int64_t fanout : relation.fanout) largest = std::max(largest, fanout);
  }
  return largest;
}

}  // namespace

PartSampler::PartSampler(std::shared_ptr<const Part> part, SamplerSpec spec)
    : part_(std::move(part)),
      spec_(std::move(spec)),
      draws_([fanout = largest_fanout(spec_), replace = spec_.options.replace] {
        return std::make_unique<sampling::core::HopDraw>(fanout, replace);
      }),
      drawn_([] { return std::make_unique<sampling::core::DrawnHop>(); }) {
  for (size_t i = 0; i < spec_.relations.size(); ++i)
    views_.push_back(view_of(spec_.relations[i], i));
}

Result<std::shared_ptr<PartSampler>> PartSampler::create(
    std::shared_ptr<const Part> part, SamplerSpec spec
) {
  for (size_t i = 0; i < spec.relations.size(); ++i) {
    const std::string where = "relation " + std::to_string(i) + ": ";
    GNN_RETURN_IF_ERROR(check_lists(*part, spec.relations[i], where));
    if (spec.options.with_edge_ids && !spec.relations[i].lists.has_edge_ids) {
      return fail(
          ErrorKind::Configuration, where + "expected a data set with edge ids, or the whole of it"
      );
    }
  }
  std::shared_ptr<PartSampler> sampler(new PartSampler(std::move(part), std::move(spec)));
  GNN_RETURN_IF_ERROR(sampling::check_options(sampler->spec_.options, sampler->views_));
  return sampler;
}

std::vector<sampling::RelationShape> PartSampler::shapes() const {
  std::vector<sampling::RelationShape> shapes;
  for (const PartRelation& relation : spec_.relations) {
    shapes.push_back(
        {.source_type = relation.source_type,
         .destination_type = relation.destination_type,
         .lane = relation.lane,
         .fanout = relation.fanout}
    );
  }
  return shapes;
}

Result<std::vector<sampling::PartOfRelation>> PartSampler::own_relations() const {
  const auto own = own_relations_.lock();
  if (!own->empty()) return *own;
  std::vector<sampling::PartOfRelation> relations;
  for (const PartRelation& relation : spec_.relations) {
    GNN_ASSIGN_OR_RETURN(auto part, own_part_of(relation));
    relations.push_back(std::move(part));
  }
  *own = relations;
  return relations;
}

Result<sampling::PartOfRelation> PartSampler::own_part_of(const PartRelation& relation) const {
  const data::IdRange own = part_->own(relation.destination_type);
  GNN_ASSIGN_OR_RETURN(
      auto graph,
      part_->own_graph(relation.lists, relation.destination_type, spec_.options.with_edge_ids)
  );
  at::Tensor ends;
  if (relation.ends.defined()) {
    // Positions among the edges that the graph has.
    const int64_t row = own.begin - relation.lists.nodes.begin;
    const int64_t begin = relation.lists.indptr.const_data_ptr<int64_t>()[row];
    ends = relation.ends.narrow(0, row, own.size());
    if (begin > 0) ends = ends - begin;
  }
  return sampling::PartOfRelation{
      .relation =
          {.graph = std::move(graph),
           .source_type = relation.source_type,
           .destination_type = relation.destination_type,
           .ends = std::move(ends),
           .lane = relation.lane,
           .fanout = relation.fanout},
      .first_node = own.begin
  };
}

size_t PartSampler::draw(
    size_t relation,
    size_t hop,
    const sampling::core::StreamPosition& position,
    std::span<const int64_t> nodes,
    int64_t most_edges,
    sampling::core::DrawnHop& out
) const {
  const RelationView& view = views_[relation];
  const sampling::core::HopOfRelation task{
      .hop = hop,
      .fanout = view.fanout.empty() ? spec_.options.fanout[hop] : view.fanout[hop],
      .replace = spec_.options.replace,
      .key = sampling::core::draw_key(position, spec_.options.rule)
  };
  const size_t count = sampling::core::HopDraw::how_many(view, task, nodes, most_edges);
  draws_.borrow()->draw(view, task, nodes.first(count), spec_.options.with_edge_ids, out);
  return count;
}

}  // namespace gnn::shards
