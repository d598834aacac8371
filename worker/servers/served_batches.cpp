#include "worker/servers/served_batches.h"

#include "common/guarded.h"
#include "common/page_buffer.h"
#include "common/recycler.h"
#include "common/stopwatch.h"
#include "worker/loader/node_batch_maker.h"
#include "worker/servers/batch_wire.h"
#include "worker/servers/hello.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gnn::servers {
namespace {

// An answer as it comes: how long its head is, the head, then all tensors.
class Receiving {
 public:
  Receiving(const BatchRequest& request, std::shared_ptr<Recycler<PageBuffer>> buffers)
      : request_(encode(request)), buffers_(std::move(buffers)) {}

  // A call of one server. What another one has sent before is forgotten.
  rpc::Call call(const std::shared_ptr<Receiving>& self) {
    stage_ = 0;
    parcel_ = {};
    return {
        .method = static_cast<uint16_t>(Method::Batch),
        .request = {std::span(request_)},
        .most_rest = kMostParcelBytes,
        .place = [self](int64_t left) { return self->place(left); }
    };
  }

  Result<Parcel> take() {
    if (stage_ == 2) {  // a batch without any bytes in its tensors
      GNN_ASSIGN_OR_RETURN(parcel_, decode_head(head_, 0, buffers_->borrow()));
    } else if (stage_ != 3) {
      return fail(ErrorKind::Data, "the answer is no batch: it is cut off");
    }
    return std::move(parcel_);
  }

 private:
  Result<std::vector<std::span<std::byte>>> place(int64_t left) {
    switch (stage_++) {
      case 0:
        if (left < kHeadSizeBytes) return too_short();
        return std::vector{std::span<std::byte>(first_)};
      case 1: {
        GNN_ASSIGN_OR_RETURN(const int64_t bytes, head_rest(first_));
        if (bytes > left) return too_short();
        head_.resize(static_cast<size_t>(bytes));
        return std::vector{std::span<std::byte>(head_)};
      }
      default:
        break;
    }
    GNN_ASSIGN_OR_RETURN(parcel_, decode_head(head_, left, buffers_->borrow()));
    return places_in(parcel_);
  }
  static tl::unexpected<Error> too_short() {
    return fail(ErrorKind::Data, "the answer is no batch: it is too short");
  }

  const std::vector<std::byte> request_;
  // The page faults of new memory would cost about as much as the bytes' way through the kernel.
  const std::shared_ptr<Recycler<PageBuffer>> buffers_;
  int stage_ = 0;
  std::array<std::byte, kHeadSizeBytes> first_{};
  std::vector<std::byte> head_;
  Parcel parcel_;
};

}  // namespace

// The questions that are under way, and those that wait until there is room for their answers. They
// may outlive their source.
template <class Batch>
class ServedBatches<Batch>::Asking : public std::enable_shared_from_this<Asking> {
 public:
  using Done = typename loader::BatchPipeline<Batch>::Done;

  Asking(std::shared_ptr<Holders> holders, int64_t max_bytes)
      : holders_(std::move(holders)), max_bytes_(max_bytes) {}

  struct Question {
    BatchRequest request;
    Executor executor;
    // Of a batch that has come, on a thread of the executor.
    std::function<void(Parcel parcel, const std::string& server)> done;
    std::function<void(Error)> failed;
  };

  void ask(Question question) {
    {
      const auto state = state_.lock();
      state->waiting.push_back(std::move(question));
    }
    go_on();
  }

 private:
  struct State {
    std::deque<Question> waiting;
    int64_t under_way = 0;
    int64_t largest = 0;  // answer so far
  };

  void go_on() {
    while (true) {
      Question question;
      {
        const auto state = state_.lock();
        // The first shows how large they are.
        const bool room =
            state->under_way == 0 ||
            (state->largest > 0 && (state->under_way + 1) * state->largest <= max_bytes_);
        if (state->waiting.empty() || !room) return;
        question = std::move(state->waiting.front());
        state->waiting.pop_front();
        ++state->under_way;
      }
      send(std::move(question));
    }
  }

  void send(Question given) {
    const auto question = std::make_shared<const Question>(std::move(given));
    const auto receiving = std::make_shared<Receiving>(question->request, buffers_);
    const BatchRequest& request = question->request;
    holders_->ask(
        {.what = describe(request),
         .part = request.partition,
         .turn = request.rank + request.index,
         .make_call = [receiving] { return receiving->call(receiving); },
         .callback =
             [self = this->shared_from_this(),
              question,
              receiving,
              start = std::chrono::steady_clock::now()](Result<Holders::Answer> answer) {
               self->on_answer(*question, *receiving, std::move(answer), seconds_since(start));
             }}
    );
  }

  void on_answer(
      const Question& question, Receiving& receiving, Result<Holders::Answer> answer, double seconds
  ) {
    {
      const auto state = state_.lock();
      --state->under_way;
      if (answer) state->largest = std::max(state->largest, answer->reply.size);
    }
    go_on();
    if (!answer) return question.failed(std::move(answer).error());
    auto parcel = receiving.take();
    if (!parcel) return question.failed(with_context(parcel.error(), answer->server));
    holders_->count_batch(answer->reply.size, parcel->times, seconds);
    // Not here: it reads every index, and this thread carries all answers.
    question.executor(
        [done = question.done, parcel = std::move(*parcel), server = std::move(answer->server)](
        ) mutable { done(std::move(parcel), server); }
    );
  }

  const std::shared_ptr<Holders> holders_;
  const int64_t max_bytes_;
  const std::shared_ptr<Recycler<PageBuffer>> buffers_ =
      std::make_shared<Recycler<PageBuffer>>([] { return std::make_unique<PageBuffer>(); });
  Guarded<State> state_;
};

template <class Batch>
Result<std::unique_ptr<ServedBatches<Batch>>> ServedBatches<Batch>::create(
    const ServedBatchesOptions& options, std::shared_ptr<Holders> holders
) {
  if (options.num_batches < 0 || options.under_way < 1 || options.prefetch < 1 ||
      options.channel_bytes.value_or(1) < 1 || options.max_bytes_in_flight < 1) {
    return fail(
        ErrorKind::Configuration,
        "served batches: expected num_batches >= 0, under_way, prefetch, channel_bytes and "
        "max_bytes_in_flight >= 1, found " +
            std::to_string(options.num_batches) + ", " + std::to_string(options.under_way) + ", " +
            std::to_string(options.prefetch) + ", " +
            std::to_string(options.channel_bytes.value_or(1)) + " and " +
            std::to_string(options.max_bytes_in_flight)
    );
  }
  return std::unique_ptr<ServedBatches>(new ServedBatches(options, std::move(holders)));
}

template <class Batch>
ServedBatches<Batch>::ServedBatches(
    const ServedBatchesOptions& options, std::shared_ptr<Holders> holders
)
    : options_(options),
      holders_(std::move(holders)),
      asking_(std::make_shared<Asking>(holders_, options.max_bytes_in_flight)),
      pipeline_(
          {.num_threads = 1,
           .concurrency = options.under_way,
           .prefetch = options.prefetch,
           .channel_bytes = options.channel_bytes,
           .device = options.device}
      ) {}

template <class Batch>
ServedBatches<Batch>::~ServedBatches() = default;

template <class Batch>
Status ServedBatches<Batch>::start_epoch(int64_t epoch, int64_t first_batch) {
  if (epoch < 0 || first_batch < 0 || first_batch > options_.num_batches) {
    return fail(
        ErrorKind::Configuration,
        "served batches: epoch " + std::to_string(epoch) + " cannot start at batch " +
            std::to_string(first_batch) + " of " + std::to_string(options_.num_batches)
    );
  }
  pipeline_.start_epoch(
      {first_batch, options_.num_batches},
      [this, epoch](int64_t index, const Executor& executor, const auto& done) {
        asking_->ask({
            .request = options_.request_of(epoch, index),
            .executor = executor,
            .done =
                [this, index, done](Parcel parcel, const std::string& server) {
                  auto batch = unpack<Batch>(std::move(parcel));
                  if (batch && batch->batch_index != index)
                    batch = fail(ErrorKind::Data, "the answer is no batch: it is another one");
                  if (!batch)
                    return done(tl::unexpected(with_context(std::move(batch).error(), server)));
                  pipeline_.add([&](loader::LoaderStats& stats) { add(stats, *batch); });
                  done(std::move(batch));
                },
            .failed = [done](Error error) { done(tl::unexpected(std::move(error))); },
        });
      }
  );
  return {};
}

template <class Batch>
Result<std::optional<Batch>> ServedBatches<Batch>::next() {
  auto batch = pipeline_.next();
  // Not when the question fails: its batch may be one that the reader never comes to, as it waits for
  // other ranks and loses them.
  if (!batch && batch.error().kind == ErrorKind::PeerLost) holders_->count_giving_up();
  return batch;
}

template class ServedBatches<loader::MiniBatch>;
template class ServedBatches<loader::LinkMiniBatch>;

}  // namespace gnn::servers
