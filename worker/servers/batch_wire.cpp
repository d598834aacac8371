#include "worker/servers/batch_wire.h"

#include "worker/shards/messages.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <numeric>
#include <string>
#include <utility>

namespace gnn::servers {
namespace {

constexpr uint32_t kHeadMark = 0x624e4e47;  // "GNNb"
constexpr uint8_t kUndefined = 0xff;
constexpr size_t kMostDimensions = 8;
constexpr std::array kTypes{
    at::kByte,
    at::kChar,
    at::kShort,
    at::kInt,
    at::kLong,
    at::kHalf,
    at::kFloat,
    at::kDouble,
    at::kBool,
    at::kBFloat16
};
// The first of a parcel's numbers.
constexpr int64_t kNodeBatch = 1;
constexpr int64_t kLinkBatch = 2;

tl::unexpected<Error> no_batch(const std::string& what) {
  return fail(ErrorKind::Data, "the answer is no batch: " + what);
}

// ---- The head

// A tensor that a head tells of.
struct TensorShape {
  uint8_t type = kUndefined;
  std::vector<int64_t> sizes;
  int64_t bytes = 0;
};

// Bytes from the start of a tensor of `bytes` to the next one's.
size_t aligned(int64_t bytes) {
  constexpr size_t kAlignment = 64;  // as the tensor library's own
  return (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
}

Result<TensorShape> read_shape(shards::MessageReader& reader) {
  GNN_ASSIGN_OR_RETURN(const uint32_t kind, reader.u32());
  GNN_RETURN_IF_ERROR(reader.u32());
  TensorShape shape{.type = static_cast<uint8_t>(kind & 0xff), .sizes = {}};
  const uint32_t dimensions = kind >> 8;
  if (shape.type == kUndefined && dimensions == 0) return shape;
  const auto* const known = std::ranges::find(kTypes, static_cast<at::ScalarType>(shape.type));
  if (known == kTypes.end() || dimensions > kMostDimensions)
    return no_batch("it has a tensor of an unknown type or of too many dimensions");
  shape.bytes = static_cast<int64_t>(c10::elementSize(*known));
  bool too_large = false;
  for (uint32_t i = 0; i < dimensions; ++i) {
    GNN_ASSIGN_OR_RETURN(const uint64_t size, reader.u64());
    // By division: the product may overflow. Of an empty tensor, too, no size is beyond all bounds.
    too_large = too_large || size > static_cast<uint64_t>(kMostParcelBytes) ||
                (size > 0 && shape.bytes > kMostParcelBytes / static_cast<int64_t>(size));
    if (too_large) return no_batch("it has a tensor that is too large");
    shape.sizes.push_back(static_cast<int64_t>(size));
    shape.bytes *= static_cast<int64_t>(size);
  }
  return shape;
}

// ---- Numbers, one after the other

class NumberReader {
 public:
  explicit NumberReader(const std::vector<int64_t>& numbers) : numbers_(numbers) {}

  // The next number, which is at least 0; -1 after the last, and from then on.
  int64_t next() {
    if (place_ == numbers_.size() || numbers_[place_] < 0) {
      bad_ = true;
      place_ = numbers_.size();
      return -1;
    }
    return numbers_[place_++];
  }
  // A count of things of which each has a number at least.
  size_t count() {
    const int64_t value = next();
    if (value >= 0 && static_cast<size_t>(value) <= numbers_.size())
      return static_cast<size_t>(value);
    bad_ = true;
    return 0;
  }
  [[nodiscard]] bool all_read() const { return !bad_ && place_ == numbers_.size(); }

 private:
  const std::vector<int64_t>& numbers_;
  size_t place_ = 0;
  bool bad_ = false;
};

class TensorReader {
 public:
  explicit TensorReader(std::vector<at::Tensor>& tensors) : tensors_(tensors) {}
  at::Tensor next() {
    if (place_ == tensors_.size()) {
      bad_ = true;
      return {};
    }
    return std::move(tensors_[place_++]);
  }
  [[nodiscard]] bool all_read() const { return !bad_ && place_ == tensors_.size(); }

 private:
  std::vector<at::Tensor>& tensors_;
  size_t place_ = 0;
  bool bad_ = false;
};

void add_lists(Parcel& parcel, const std::vector<std::vector<int64_t>>& lists) {
  parcel.numbers.push_back(static_cast<int64_t>(lists.size()));
  for (const auto& list : lists) {
    parcel.numbers.push_back(static_cast<int64_t>(list.size()));
    parcel.numbers.insert(parcel.numbers.end(), list.begin(), list.end());
  }
}

std::vector<std::vector<int64_t>> read_lists(NumberReader& numbers) {
  std::vector<std::vector<int64_t>> lists(numbers.count());
  for (auto& list : lists) {
    list.resize(numbers.count());
    for (int64_t& number : list) number = numbers.next();
  }
  return lists;
}

void set_times(Parcel& parcel, const loader::BatchCost& cost) {
  parcel.times.sample_seconds = cost.sample_seconds;
  parcel.times.gather_seconds = cost.fetch_seconds;
}

loader::BatchCost cost_of(const BatchTimes& times) {
  return {.sample_seconds = times.sample_seconds, .fetch_seconds = times.gather_seconds};
}

void add_tensor(Parcel& parcel, const at::Tensor& tensor) {
  parcel.tensors.push_back(tensor.defined() ? tensor.contiguous() : tensor);
}

void add(Parcel& parcel, const sampling::SampledSubgraph& subgraph) {
  parcel.numbers.push_back(subgraph.num_seeds);
  parcel.numbers.push_back(static_cast<int64_t>(subgraph.node_ids.size()));
  for (const at::Tensor& ids : subgraph.node_ids) add_tensor(parcel, ids);
  add_lists(parcel, subgraph.nodes_per_hop);
  add_lists(parcel, subgraph.edges_per_hop);
  parcel.numbers.push_back(static_cast<int64_t>(subgraph.blocks.size()));
  for (const auto& layer : subgraph.blocks) {
    parcel.numbers.push_back(static_cast<int64_t>(layer.size()));
    for (const graph::Block& block : layer) {
      parcel.numbers.push_back(block.num_sources);
      parcel.numbers.push_back(block.num_destinations);
      add_tensor(parcel, block.indptr);
      add_tensor(parcel, block.indices);
      add_tensor(parcel, block.edge_ids);
    }
  }
}

sampling::SampledSubgraph read_subgraph(NumberReader& numbers, TensorReader& tensors) {
  sampling::SampledSubgraph subgraph;
  subgraph.num_seeds = numbers.next();
  subgraph.node_ids.resize(numbers.count());
  for (at::Tensor& ids : subgraph.node_ids) ids = tensors.next();
  subgraph.nodes_per_hop = read_lists(numbers);
  subgraph.edges_per_hop = read_lists(numbers);
  subgraph.blocks.resize(numbers.count());
  for (auto& layer : subgraph.blocks) {
    layer.resize(numbers.count());
    for (graph::Block& block : layer) {
      block.num_sources = numbers.next();
      block.num_destinations = numbers.next();
      block.indptr = tensors.next();
      block.indices = tensors.next();
      block.edge_ids = tensors.next();
    }
  }
  return subgraph;
}

// ---- What must be true before a model may read a batch

bool is_list(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.defined() && tensor.scalar_type() == type && tensor.dim() == 1;
}

template <class T>
bool all_below(const at::Tensor& tensor, int64_t bound) {
  const T* const values = tensor.const_data_ptr<T>();
  // Without a branch in the loop: this reads every edge of every batch.
  bool below = true;
  for (int64_t i = 0; i < tensor.numel(); ++i)
    below &= values[i] >= 0 && static_cast<int64_t>(values[i]) < bound;
  return below;
}

bool are_indices(const at::Tensor& tensor, int64_t bound) {
  if (is_list(tensor, at::kInt)) return all_below<int32_t>(tensor, bound);
  return is_list(tensor, at::kLong) && all_below<int64_t>(tensor, bound);
}

bool is_block(const graph::Block& block) {
  // Of an edge type that is not sampled.
  if (!block.indptr.defined()) {
    return !block.indices.defined() && !block.edge_ids.defined() && block.num_sources == 0 &&
           block.num_destinations == 0;
  }
  if (!is_list(block.indptr, at::kLong) || block.num_destinations < 0 ||
      block.indptr.numel() - 1 != block.num_destinations ||
      !are_indices(block.indices, block.num_sources))
    return false;
  const int64_t edges = block.indices.numel();
  const int64_t* const indptr = block.indptr.const_data_ptr<int64_t>();
  if (indptr[0] != 0 || indptr[block.num_destinations] != edges ||
      !std::is_sorted(indptr, indptr + block.num_destinations + 1))
    return false;
  return !block.edge_ids.defined() ||
         (is_list(block.edge_ids, at::kLong) && block.edge_ids.numel() == edges);
}

Status check(const sampling::SampledSubgraph& subgraph) {
  const size_t types = subgraph.node_ids.size();
  if (types == 0 || subgraph.nodes_per_hop.size() != types)
    return no_batch("its node types disagree");
  int64_t seeds = 0;
  for (size_t type = 0; type < types; ++type) {
    const auto& per_hop = subgraph.nodes_per_hop[type];
    if (!is_list(subgraph.node_ids[type], at::kLong) || per_hop.empty() ||
        std::accumulate(per_hop.begin(), per_hop.end(), int64_t{0}) !=
            subgraph.node_ids[type].numel())
      return no_batch("its nodes of type " + std::to_string(type) + " disagree with their counts");
    seeds += per_hop.front();
  }
  if (seeds != subgraph.num_seeds) return no_batch("its seeds disagree with their counts");
  for (const auto& layer : subgraph.blocks) {
    for (const graph::Block& block : layer)
      if (!is_block(block)) return no_batch("one of its blocks is none");
  }
  if (types > 1) return {};
  // In one node type, the layers fit on each other.
  int64_t rows = subgraph.node_ids.front().numel();
  for (const auto& layer : subgraph.blocks) {
    if (layer.empty()) return no_batch("a layer has no block");
    for (const graph::Block& block : layer) {
      if (block.num_sources != rows || block.num_destinations > rows ||
          block.num_destinations != layer.front().num_destinations)
        return no_batch("its layers do not fit on each other");
    }
    rows = layer.front().num_destinations;
  }
  if (!subgraph.blocks.empty() && rows != subgraph.num_seeds)
    return no_batch("its last layer is not of its seeds");
  return {};
}

// All that is left in a parcel: a subgraph that a model may read.
Result<sampling::SampledSubgraph> read_last(NumberReader& numbers, TensorReader& tensors) {
  sampling::SampledSubgraph subgraph = read_subgraph(numbers, tensors);
  if (!numbers.all_read() || !tensors.all_read())
    return no_batch("it has too few or too many numbers or tensors");
  GNN_RETURN_IF_ERROR(check(subgraph));
  return subgraph;
}

bool has_rows(const at::Tensor& tensor, int64_t rows) {
  return !tensor.defined() || (tensor.dim() >= 1 && tensor.size(0) == rows);
}

}  // namespace

int64_t Parcel::bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& each : tensors)
    if (each.defined()) bytes += static_cast<int64_t>(each.nbytes());
  return bytes;
}

Result<std::vector<std::byte>> encode_head(const Parcel& parcel) {
  shards::MessageWriter writer;
  writer.add(kHeadMark);
  writer.add(uint32_t{0});
  writer.add(static_cast<uint32_t>(parcel.numbers.size()));
  writer.add(static_cast<uint32_t>(parcel.tensors.size()));
  writer.add(parcel.times.queue_seconds);
  writer.add(parcel.times.sample_seconds);
  writer.add(parcel.times.gather_seconds);
  for (const int64_t number : parcel.numbers) writer.add(number);
  for (const at::Tensor& tensor : parcel.tensors) {
    const uint32_t type =
        tensor.defined() ? static_cast<uint8_t>(tensor.scalar_type()) : kUndefined;
    const auto dimensions = static_cast<uint32_t>(tensor.defined() ? tensor.dim() : 0);
    writer.add(type | dimensions << 8);
    writer.add(uint32_t{0});
    if (!tensor.defined()) continue;
    for (const int64_t size : tensor.sizes()) writer.add(size);
  }
  std::vector<std::byte> head = std::move(writer).take();
  const auto rest = static_cast<int64_t>(head.size()) - kHeadSizeBytes;
  if (rest > kMostHeadBytes) {
    return fail(
        ErrorKind::Internal, "a batch's head has " + std::to_string(rest) + " bytes: too many types"
    );
  }
  const auto size = static_cast<uint32_t>(rest);
  std::memcpy(head.data() + sizeof(uint32_t), &size, sizeof size);
  return head;
}

std::vector<std::span<const std::byte>> segments_of(const Parcel& parcel) {
  std::vector<std::span<const std::byte>> segments;
  for (const at::Tensor& each : parcel.tensors) {
    if (!each.defined() || each.nbytes() == 0) continue;
    segments.emplace_back(static_cast<const std::byte*>(each.const_data_ptr()), each.nbytes());
  }
  return segments;
}

std::vector<std::span<std::byte>> places_in(Parcel& parcel) {
  std::vector<std::span<std::byte>> places;
  for (const at::Tensor& each : parcel.tensors) {
    if (!each.defined() || each.nbytes() == 0) continue;
    places.emplace_back(static_cast<std::byte*>(each.mutable_data_ptr()), each.nbytes());
  }
  return places;
}

Result<int64_t> head_rest(std::span<const std::byte> first) {
  shards::MessageReader reader(first);
  GNN_ASSIGN_OR_RETURN(const uint32_t mark, reader.u32());
  GNN_ASSIGN_OR_RETURN(const uint32_t rest, reader.u32());
  if (mark != kHeadMark || rest == 0 || rest > kMostHeadBytes) return no_batch("it has no head");
  return rest;
}

Result<Parcel> decode_head(
    std::span<const std::byte> head, int64_t tensor_bytes, const std::shared_ptr<PageBuffer>& memory
) {
  shards::MessageReader reader(head);
  GNN_ASSIGN_OR_RETURN(const uint32_t numbers, reader.u32());
  GNN_ASSIGN_OR_RETURN(const uint32_t tensors, reader.u32());
  Parcel parcel;
  for (double* const seconds :
       {&parcel.times.queue_seconds, &parcel.times.sample_seconds, &parcel.times.gather_seconds}) {
    GNN_ASSIGN_OR_RETURN(const uint64_t bits, reader.u64());
    *seconds = std::bit_cast<double>(bits);
    if (!(*seconds >= 0 && *seconds < 1e9)) return no_batch("its times are none");
  }
  if (numbers > static_cast<uint64_t>(reader.bytes_left()) / sizeof(int64_t))
    return no_batch("its head is cut off");
  for (uint32_t i = 0; i < numbers; ++i) {
    GNN_ASSIGN_OR_RETURN(const uint64_t number, reader.u64());
    parcel.numbers.push_back(static_cast<int64_t>(number));
  }
  if (tensors > static_cast<uint64_t>(reader.bytes_left()) / 8)
    return no_batch("its head is cut off");
  std::vector<TensorShape> shapes;
  int64_t bytes = 0;
  for (uint32_t i = 0; i < tensors; ++i) {
    GNN_ASSIGN_OR_RETURN(TensorShape shape, read_shape(reader));
    bytes += shape.bytes;
    if (bytes > tensor_bytes) break;
    shapes.push_back(std::move(shape));
  }
  if (bytes != tensor_bytes || reader.bytes_left() > 0)
    return no_batch("its tensors are not as long as what follows its head");
  size_t needed = 0;
  for (const TensorShape& shape : shapes) needed += aligned(shape.bytes);
  try {
    memory->reserve(needed);
  } catch (const std::bad_alloc&) {
    return fail(
        ErrorKind::OutOfMemory, "no memory for a batch of " + std::to_string(bytes) + " bytes"
    );
  }
  auto* place = static_cast<std::byte*>(memory->data());
  for (const TensorShape& shape : shapes) {
    if (shape.type == kUndefined) {
      parcel.tensors.emplace_back();
      continue;
    }
    const auto type = static_cast<at::ScalarType>(shape.type);
    parcel.tensors.push_back(
        shape.bytes == 0 ? at::empty(shape.sizes, type)
                         : at::from_blob(
                               place, shape.sizes, [memory](void*) {}, type
                           )
    );
    place += aligned(shape.bytes);
  }
  return parcel;
}

Parcel pack(const loader::MiniBatch& batch) {
  Parcel parcel;
  parcel.numbers = {kNodeBatch, batch.batch_index};
  set_times(parcel, batch.cost);
  add_tensor(parcel, batch.seeds);
  add_tensor(parcel, batch.x);
  add_tensor(parcel, batch.y);
  add(parcel, batch.subgraph);
  return parcel;
}

Parcel pack(const loader::LinkMiniBatch& batch) {
  Parcel parcel;
  parcel.numbers = {
      kLinkBatch,
      batch.batch_index,
      batch.positives,
      batch.false_negatives,
      static_cast<int64_t>(batch.x.size())
  };
  set_times(parcel, batch.cost);
  for (const at::Tensor& rows : batch.x) add_tensor(parcel, rows);
  add_tensor(parcel, batch.source_rows);
  add_tensor(parcel, batch.destination_rows);
  add_tensor(parcel, batch.labels);
  add(parcel, batch.subgraph);
  return parcel;
}

template <>
Result<loader::MiniBatch> unpack(Parcel parcel) {
  NumberReader numbers(parcel.numbers);
  TensorReader tensors(parcel.tensors);
  if (numbers.next() != kNodeBatch) return no_batch("it is of another kind");
  loader::MiniBatch batch;
  batch.batch_index = numbers.next();
  batch.cost = cost_of(parcel.times);
  batch.seeds = tensors.next();
  batch.x = tensors.next();
  batch.y = tensors.next();
  GNN_ASSIGN_OR_RETURN(batch.subgraph, read_last(numbers, tensors));
  const sampling::SampledSubgraph& subgraph = batch.subgraph;
  if (subgraph.node_ids.size() != 1 || !is_list(batch.seeds, at::kLong) ||
      !has_rows(batch.x, subgraph.node_ids.front().numel()) ||
      !has_rows(batch.y, batch.seeds.numel()))
    return no_batch("its rows disagree with its nodes");
  return batch;
}

template <>
Result<loader::LinkMiniBatch> unpack(Parcel parcel) {
  NumberReader numbers(parcel.numbers);
  TensorReader tensors(parcel.tensors);
  if (numbers.next() != kLinkBatch) return no_batch("it is of another kind");
  loader::LinkMiniBatch batch;
  batch.batch_index = numbers.next();
  batch.cost = cost_of(parcel.times);
  batch.positives = numbers.next();
  batch.false_negatives = numbers.next();
  batch.x.resize(numbers.count());
  for (at::Tensor& rows : batch.x) rows = tensors.next();
  batch.source_rows = tensors.next();
  batch.destination_rows = tensors.next();
  batch.labels = tensors.next();
  GNN_ASSIGN_OR_RETURN(batch.subgraph, read_last(numbers, tensors));
  const sampling::SampledSubgraph& subgraph = batch.subgraph;
  if (batch.x.size() != subgraph.node_ids.size()) return no_batch("its node types disagree");
  int64_t most_seeds = 0;
  for (size_t type = 0; type < batch.x.size(); ++type) {
    most_seeds = std::max(most_seeds, subgraph.nodes_per_hop[type].front());
    if (!has_rows(batch.x[type], subgraph.node_ids[type].numel()))
      return no_batch("its rows of type " + std::to_string(type) + " disagree with its nodes");
  }
  if (!is_list(batch.labels, at::kFloat) || batch.positives > batch.labels.numel())
    return no_batch("its labels are none");
  for (const at::Tensor* const rows : {&batch.source_rows, &batch.destination_rows}) {
    if (!is_list(*rows, at::kLong) || rows->numel() != batch.labels.numel() ||
        !are_indices(*rows, most_seeds))
      return no_batch("the ends of its links are none of its nodes");
  }
  return batch;
}

}  // namespace gnn::servers
