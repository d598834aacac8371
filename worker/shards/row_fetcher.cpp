#include "worker/shards/row_fetcher.h"

#include "worker/data/gather.h"
#include "worker/loader/on_host.h"

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>

namespace gnn::shards {
namespace {

int64_t bytes_of_row(const at::Tensor& rows) {
  auto elements = int64_t{1};
  for (int64_t dim = 1; dim < rows.dim(); ++dim) elements *= rows.size(dim);
  return elements * static_cast<int64_t>(rows.element_size());
}

std::span<const int64_t> ids_of(const at::Tensor& ids) {
  return {ids.const_data_ptr<int64_t>(), static_cast<size_t>(ids.numel())};
}

}  // namespace

// A result under way.
class RowFetcher::Fetch : public std::enable_shared_from_this<Fetch> {
 public:
  // `memory` is for what is asked for, and stays for as long as `result` lives, which makes the result
  // once all is there.
  Fetch(
      std::byte* memory,
      std::function<Result<at::Tensor>()> result,
      const Executor& executor,
      Done done
  )
      : memory_(memory), result_(std::move(result)), executor_(executor), done_(std::move(done)) {}

  // Asks `peer` for the rows that some ids name; they go to these places in the memory.
  void ask(
      Peer& peer,
      Method method,
      const RowsRequest& request,
      std::span<const int64_t> ids,
      std::span<const int64_t> places,
      size_t row_bytes
  ) {
    PeerCall call;
    call.method = static_cast<uint16_t>(method);
    call.request = encode(request, ids);
    for (const int64_t place : places) {
      std::byte* const to = row(place, row_bytes);
      // Neighbouring rows are received as one.
      if (!call.into.empty() && call.into.back().data() + call.into.back().size() == to) {
        call.into.back() = {call.into.back().data(), call.into.back().size() + row_bytes};
      } else {
        call.into.emplace_back(to, row_bytes);
      }
    }
    const auto bytes = static_cast<int64_t>(ids.size() * row_bytes);
    waiting_.fetch_add(1);
    peer.call(
        std::move(call),
        [fetch = shared_from_this(), bytes, name = peer.name()](Result<PeerReply> reply) {
          if (!reply) return fetch->fail_with(std::move(reply).error());
          if (reply->size == bytes) return fetch->arrived();
          fetch->fail_with(
              {.kind = ErrorKind::Data,
               .message = name + ": rows: expected " + std::to_string(bytes) + " bytes, found " +
                          std::to_string(reply->size)}
          );
        }
    );
  }

  // Copies rows of this process's memory to their places in that memory.
  void copy(std::span<const std::byte* const> here, size_t row_bytes) const {
    data::gather_rows(here, row_bytes, row(0, row_bytes));
  }

  // All is asked and copied. The result is ready when the last reply has come, or now.
  void finish() {
    if (waiting_.load() > 1) return arrived();
    done_(result_());
  }

 private:
  [[nodiscard]] std::byte* row(int64_t place, size_t row_bytes) const {
    return memory_ + static_cast<size_t>(place) * row_bytes;
  }

  void arrived() {
    if (waiting_.fetch_sub(1) > 1) return;
    executor_([fetch = shared_from_this()] {
      if (!fetch->failed_.load()) fetch->done_(fetch->result_());
    });
  }

  // Once: what comes later is dropped.
  void fail_with(Error error) {
    if (failed_.exchange(true)) return;
    executor_([fetch = shared_from_this(), error = std::move(error)] {
      fetch->done_(tl::unexpected<Error>(error));
    });
  }

  std::byte* const memory_;
  const std::function<Result<at::Tensor>()> result_;  // with the memory, also for late replies
  const Executor executor_;
  const Done done_;
  // Replies that have not come, and one for the thread that asks. The last decrement orders all that
  // was received before the others (acquire and release).
  std::atomic<int64_t> waiting_ = 1;
  std::atomic<bool> failed_ = false;
};

RowFetcher::RowFetcher(
    const Options& options,
    std::shared_ptr<const Part> part,
    PartRows own,
    Peers peers,
    RowPlaces places,
    std::shared_ptr<Recycler<PageBuffer>> buffers
)
    : options_(options),
      part_(std::move(part)),
      own_(std::move(own)),
      peers_(std::move(peers)),
      places_(std::move(places)),
      row_bytes_(bytes_of_row(own_.rows)),
      buffers_(std::move(buffers)),
      dealt_([] { return std::make_unique<Dealt>(); }) {}

Result<std::shared_ptr<RowFetcher>> RowFetcher::create(
    const Options& options,
    std::shared_ptr<const Part> part,
    PartRows own,
    Peers peers,
    RowPlaces places
) {
  if (!own.rows.defined() || own.rows.dim() < 1 || !own.rows.is_cpu() ||
      !own.rows.is_contiguous() || own.rows.size(0) != own.nodes.size()) {
    return fail(
        ErrorKind::Configuration,
        "rows of node type " + std::to_string(options.node_type) + ": expected " +
            std::to_string(own.nodes.size()) + " contiguous rows on the CPU"
    );
  }
  const data::IdRange range = part->own(options.node_type);
  const bool is_whole =
      own.nodes.size() == part->num_nodes()[static_cast<size_t>(options.node_type)];
  for (int64_t other = 0; other < part->book().parts && !is_whole; ++other) {
    const auto index = static_cast<size_t>(other);
    if (other == part->index() || (index < peers.size() && peers[index] != nullptr)) continue;
    return fail(
        ErrorKind::Configuration, "remote rows: nobody to ask for part " + std::to_string(other)
    );
  }
  if (own.nodes.begin > range.begin || own.nodes.end < range.end) {
    return fail(
        ErrorKind::Configuration,
        "remote rows: expected those of the nodes [" + std::to_string(range.begin) + ", " +
            std::to_string(range.end) + ") here"
    );
  }
  return std::shared_ptr<RowFetcher>(new RowFetcher(
      options,
      std::move(part),
      std::move(own),
      std::move(peers),
      std::move(places),
      std::make_shared<Recycler<PageBuffer>>([] { return std::make_unique<PageBuffer>(); })
  ));
}

std::shared_ptr<RowFetcher> RowFetcher::counted_apart() const {
  return std::shared_ptr<RowFetcher>(
      new RowFetcher(options_, part_, own_, peers_, places_, buffers_)
  );
}

bool RowFetcher::is_local() const {
  return own_.nodes.size() == part_->num_nodes()[static_cast<size_t>(options_.node_type)];
}

RowCounts RowFetcher::counts() const {
  return {
      .local = local_.load(std::memory_order_relaxed),
      .hits = hits_.load(std::memory_order_relaxed),
      .remote = remote_.load(std::memory_order_relaxed),
      .remote_bytes = remote_bytes_.load(std::memory_order_relaxed)
  };
}

void RowFetcher::start(at::Tensor global_ids, const Executor& executor, Done done) {
  TORCH_CHECK(
      global_ids.dim() == 1 && global_ids.scalar_type() == at::kLong && global_ids.is_contiguous(),
      "ids must be a contiguous int64 vector, found ",
      global_ids.toString(),
      " of shape ",
      global_ids.sizes()
  );
  if (places_.device != nullptr) return start_on_device(global_ids, executor, std::move(done));
  start_on_host(loader::on_host(global_ids), executor, std::move(done));
}

Status RowFetcher::check_ids(std::span<const int64_t> ids) const {
  const int64_t nodes = part_->num_nodes()[static_cast<size_t>(options_.node_type)];
  const int64_t bad = data::first_out_of_range(ids, nodes);
  if (bad < 0) return {};
  return fail(
      ErrorKind::Data,
      "row " + std::to_string(bad) + " of the batch: expected an id in [0, " +
          std::to_string(nodes) + "), found " + std::to_string(ids[static_cast<size_t>(bad)])
  );
}

void RowFetcher::start_on_host(const at::Tensor& global_ids, const Executor& executor, Done done) {
  const std::span<const int64_t> ids = ids_of(global_ids);
  if (Status checked = check_ids(ids); !checked)
    return done(tl::unexpected(std::move(checked).error()));
  const std::vector<int64_t> shape = shape_of(global_ids.numel());
  if (ids.empty() || row_bytes_ == 0) return done(at::empty(shape, own_.rows.options()));
  // The page faults of a fresh tensor of hundreds of megabytes would cost more than the copy itself.
  std::shared_ptr<PageBuffer> memory = buffers_->borrow();
  memory->reserve(ids.size() * static_cast<size_t>(row_bytes_));
  auto* const data = static_cast<std::byte*>(memory->data());
  const at::Tensor rows =
      at::from_blob(data, shape, [memory = std::move(memory)](void*) {}, own_.rows.options());
  const auto fetch = std::make_shared<Fetch>(
      data, [rows]() -> Result<at::Tensor> { return rows; }, executor, std::move(done)
  );
  const std::shared_ptr<Dealt> dealt = dealt_.borrow();
  deal(ids, *dealt);
  // Others are asked before this process copies its own rows.
  ask_all(*dealt, fetch);
  fetch->copy(dealt->here, static_cast<size_t>(row_bytes_));
  fetch->finish();
}

void RowFetcher::start_on_device(
    const at::Tensor& global_ids, const Executor& executor, Done done
) {
  const loader::DeviceRows& device = *places_.device;
  const auto on_host = device.device().on_host(global_ids);
  if (!on_host) return done(tl::unexpected<Error>(on_host.error()));
  const std::span<const int64_t> ids = ids_of(*on_host);
  if (Status checked = check_ids(ids); !checked)
    return done(tl::unexpected(std::move(checked).error()));
  const std::shared_ptr<Dealt> dealt = dealt_.borrow();
  deal(ids, *dealt);
  // Rows are received next to each other, in the order in which they are asked for.
  std::vector<int64_t> places;
  for (Wanted& wanted : dealt->remote) {
    const auto first = static_cast<int64_t>(places.size());
    places.insert(places.end(), wanted.places.begin(), wanted.places.end());
    std::iota(wanted.places.begin(), wanted.places.end(), first);
  }
  if (places.empty() || row_bytes_ == 0) {
    count(*dealt);
    return done(device.gather(global_ids));
  }
  auto received = device.device().host_memory(
      shape_of(static_cast<int64_t>(places.size())), own_.rows.scalar_type()
  );
  if (!received) return done(tl::unexpected<Error>(std::move(received).error()));
  auto* const data = static_cast<std::byte*>(received->mutable_data_ptr());
  const auto fetch = std::make_shared<Fetch>(
      data,
      [rows = places_.device, ids = global_ids, received = *received, places = std::move(places)] {
        return rows->gather(ids, {.rows = received, .places = places});
      },
      executor,
      std::move(done)
  );
  ask_all(*dealt, fetch);
  fetch->finish();
}

std::vector<int64_t> RowFetcher::shape_of(int64_t rows) const {
  std::vector<int64_t> shape = own_.rows.sizes().vec();
  shape[0] = rows;
  return shape;
}

void RowFetcher::ask_all(const Dealt& dealt, const std::shared_ptr<Fetch>& fetch) {
  const auto most = static_cast<size_t>(rows_of_message(row_bytes_));
  for (size_t owner = 0; owner < dealt.remote.size(); ++owner) {
    const Wanted& wanted = dealt.remote[owner];
    for (size_t begin = 0; begin < wanted.ids.size(); begin += most) {
      const size_t count = std::min(most, wanted.ids.size() - begin);
      fetch->ask(
          *peers_[owner],
          options_.method,
          {.index = options_.index},
          std::span(wanted.ids).subspan(begin, count),
          std::span(wanted.places).subspan(begin, count),
          static_cast<size_t>(row_bytes_)
      );
    }
  }
  count(dealt);
}

void RowFetcher::count(const Dealt& dealt) {
  int64_t remote = 0;
  for (const Wanted& wanted : dealt.remote) remote += static_cast<int64_t>(wanted.ids.size());
  local_.fetch_add(dealt.local, std::memory_order_relaxed);
  hits_.fetch_add(dealt.hits, std::memory_order_relaxed);
  remote_.fetch_add(remote, std::memory_order_relaxed);
  remote_bytes_.fetch_add(remote * row_bytes_, std::memory_order_relaxed);
}

void RowFetcher::deal(std::span<const int64_t> ids, Dealt& dealt) const {
  dealt.here.assign(ids.size(), nullptr);
  dealt.remote.resize(static_cast<size_t>(part_->book().parts));
  for (Wanted& wanted : dealt.remote) {
    wanted.ids.clear();
    wanted.places.clear();
  }
  dealt.local = dealt.hits = 0;
  const auto* const own = static_cast<const std::byte*>(own_.rows.const_data_ptr());
  const RowCache* const cache = places_.cache.get();
  // What a device gathers has no place here.
  const bool here = places_.device == nullptr;
  const auto* const cached = cache == nullptr || !here
                                 ? nullptr
                                 : static_cast<const std::byte*>(cache->rows().const_data_ptr());
  for (size_t place = 0; place < ids.size(); ++place) {
    const int64_t id = ids[place];
    if (own_.nodes.contains(id)) {
      if (here) dealt.here[place] = own + (id - own_.nodes.begin) * row_bytes_;
      ++dealt.local;
      continue;
    }
    const int64_t row = cache == nullptr ? -1 : cache->find(id);
    if (row >= 0) {
      if (here) dealt.here[place] = cached + row * row_bytes_;
      ++dealt.hits;
      continue;
    }
    const int64_t owner = part_->book().part_of(static_cast<size_t>(options_.node_type), id);
    Wanted& wanted = dealt.remote[static_cast<size_t>(owner)];
    wanted.ids.push_back(id);
    wanted.places.push_back(static_cast<int64_t>(place));
  }
}

}  // namespace gnn::shards
