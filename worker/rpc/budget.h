#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace gnn::rpc::internal {

/// Bytes of requests and answers that a client, or all clients, have in memory. Only the numbers
/// count, so they are atomic without an order.
/// Threads: safe from any thread.
class Budget {
 public:
  explicit Budget(int64_t most) : most_(most) {}

  /// May a request of so many bytes be read? One always may.
  [[nodiscard]] bool has_room(int64_t bytes) const {
    const int64_t used = used_.load(std::memory_order_relaxed);
    return used == 0 || used + bytes <= most_;
  }
  /// May another answer be made? Not while there are answers to send, and they take too much.
  [[nodiscard]] bool takes_answers() const {
    return answers_.load(std::memory_order_relaxed) == 0 ||
           used_.load(std::memory_order_relaxed) < most_;
  }

 private:
  friend class Charge;
  const int64_t most_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> answers_{0};  // that are not sent
};

/// Uses bytes of a client's budget and of that of all, for its lifetime: of a request, later of its
/// answer.
class Charge {
 public:
  Charge(std::shared_ptr<Budget> client, std::shared_ptr<Budget> total, int64_t bytes)
      : client_(std::move(client)), total_(std::move(total)) {
    add(bytes, 0);
  }
  Charge(Charge&& other) noexcept
      : client_(std::move(other.client_)),
        total_(std::move(other.total_)),
        bytes_(other.bytes_),
        answers_(other.answers_) {}
  Charge& operator=(Charge&&) = delete;
  ~Charge() {
    if (client_ != nullptr) add(-bytes_, -answers_);
  }

  /// From now on for an answer of so many bytes.
  void becomes_answer(int64_t bytes) { add(bytes - bytes_, 1 - answers_); }

 private:
  void add(int64_t bytes, int64_t answers) {
    bytes_ += bytes;
    answers_ += answers;
    for (Budget* budget : {client_.get(), total_.get()}) {
      budget->used_.fetch_add(bytes, std::memory_order_relaxed);
      budget->answers_.fetch_add(answers, std::memory_order_relaxed);
    }
  }

  std::shared_ptr<Budget> client_;  // null: moved from
  std::shared_ptr<Budget> total_;
  int64_t bytes_ = 0;
  int64_t answers_ = 0;
};

}  // namespace gnn::rpc::internal
