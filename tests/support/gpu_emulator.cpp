#include "tests/support/gpu_emulator.h"

#include "worker/sampling/core/rng.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GNN_ASAN_FIBERS
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define GNN_ASAN_FIBERS
#endif
#ifdef GNN_ASAN_FIBERS
#include <sanitizer/common_interface_defs.h>
#endif

namespace gnn::testing {

namespace {

constexpr size_t kStackBytes = size_t{64} << 10;
constexpr int kGarbage = 0xA5;
constexpr int kWarp = gpu::kWarpThreads;
// What threads of a warp meet for.
enum Meeting : int { kNothing, kShuffle, kBallot, kSync };

// A stack, and what a thread on it would go on with. The address sanitizer is told of each change of
// stacks.
class Context {
 public:
  Context() = default;
  ~Context() {
    if (own_stack_ != nullptr) ::munmap(own_stack_, kStackBytes);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Makes it one that calls main(argument) when it is first switched to.
  void start(void (*main)(unsigned, unsigned), void* argument) {
    own_stack_ = ::mmap(
        nullptr,
        kStackBytes,
        PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
        -1,
        0
    );
    if (own_stack_ == MAP_FAILED) {
      own_stack_ = nullptr;
      throw std::bad_alloc();
    }
    bottom_ = own_stack_;
    bytes_ = kStackBytes;
    if (getcontext(&context_) != 0) throw std::runtime_error("getcontext failed");
    context_.uc_stack.ss_sp = own_stack_;
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    const auto bits = std::bit_cast<uint64_t>(argument);
    // reinterpret_cast: makecontext takes a function without parameters and passes words.
    makecontext(
        &context_,
        reinterpret_cast<void (*)()>(main),
        2,
        static_cast<unsigned>(bits >> 32),
        static_cast<unsigned>(bits)
    );
  }

  // Goes on with `other`; returns when something switches back to this one.
  void switch_to(Context& other) {
#ifdef GNN_ASAN_FIBERS
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, other.bottom_, other.bytes_);
#endif
    other.came_from_ = this;
    swapcontext(&context_, &other.context_);
#ifdef GNN_ASAN_FIBERS
    arrived(fake_stack);
#endif
  }

  // What a new context calls first.
  void arrived([[maybe_unused]] void* fake_stack) {
#ifdef GNN_ASAN_FIBERS
    // The thread's own stack is known only once it has been left.
    __sanitizer_finish_switch_fiber(fake_stack, &came_from_->bottom_, &came_from_->bytes_);
#endif
  }

 private:
  ucontext_t context_{};
  void* own_stack_ = nullptr;
  const void* bottom_ = nullptr;
  size_t bytes_ = 0;
  Context* came_from_ = nullptr;
};

}  // namespace

class GpuEmulator::Impl {
 public:
  explicit Impl(EmulatorOptions options)
      : options_(options),
        random_(
            {static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32)}, 1, 0
        ) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    leaving_ = true;
    for (auto& fiber : fibers_) scheduler_.switch_to(fiber->context);
  }

  void run(const std::function<void(Thread&)>& body, const gpu::LaunchShape& shape) {
    if (shape.threads % kWarp != 0 || shape.threads <= 0)
      throw std::logic_error(
          "a block of " + std::to_string(shape.threads) + " threads is no whole warps"
      );
    body_ = &body;
    shape_ = shape;
    order_blocks();
    const auto resident = std::min<int64_t>(options_.resident_blocks, shape.blocks);
    make_fibers(static_cast<size_t>(resident) * static_cast<size_t>(shape.threads));
    blocks_.assign(static_cast<size_t>(resident), Block{});
    running_.clear();
    for (size_t slot = 0; slot < blocks_.size(); ++slot) start_block(slot);
    while (!running_.empty()) {
      const size_t at = pick();
      resume(at);
    }
    for (const Block& block : blocks_) {
      if (block.left > 0) fail("threads wait for others that have left");
    }
  }

  // Called by fibers.
  void step(int fiber) {
    const bool stay = options_.schedule != Schedule::Random || random_.below32(2) == 0;
    if (!stay) back_to_scheduler(fiber, State::Ready);
  }

  void sync(int fiber) {
    Block& block = blocks_[static_cast<size_t>(block_of(fiber))];
    if (++block.at_barrier < shape_.threads) {
      back_to_scheduler(fiber, State::Waiting);
      return;
    }
    block.at_barrier = 0;
    const int first = block_of(fiber) * shape_.threads;
    for (int each = first; each < first + shape_.threads; ++each) {
      if (each != fiber) ready(each);
    }
    back_to_scheduler(fiber, State::Ready);
  }

  void meet_warp(int fiber, int kind, uint64_t value) {
    Warp& warp = warp_of(fiber);
    if (warp.arrived > 0 && warp.kind != kind)
      throw std::logic_error("lanes of a warp meet for different things");
    warp.kind = kind;
    warp.arriving[static_cast<size_t>(fiber % kWarp)] = value;
    if (++warp.arrived < kWarp) {
      back_to_scheduler(fiber, State::Waiting);
      return;
    }
    warp.arrived = 0;
    warp.values = warp.arriving;
    warp.arriving.fill(0xA5A5A5A5A5A5A5A5U);
    const int first = fiber / kWarp * kWarp;
    for (int each = first; each < first + kWarp; ++each) {
      if (each != fiber) ready(each);
    }
    back_to_scheduler(fiber, State::Ready);
  }

  [[nodiscard]] uint64_t met(int fiber, int lane) {
    return warp_of(fiber).values[static_cast<size_t>(lane)];
  }

 private:
  enum class State { Idle, Ready, Waiting };
  struct Fiber {
    Impl* impl = nullptr;
    int number = 0;
    State state = State::Idle;
    Context context;
    Thread thread;
  };
  // A lane can leave a meeting and come to the next before another has read what was met for: that
  // one is not over before all have come again, so that two sets of values do.
  struct Warp {
    int arrived = 0;
    int kind = kNothing;
    std::array<uint64_t, kWarp> arriving{};
    std::array<uint64_t, kWarp> values{};
  };
  struct Block {
    int left = 0;  // threads that have not ended
    int at_barrier = 0;
    std::vector<std::byte> shared;
    std::vector<Warp> warps;
  };

  [[nodiscard]] int block_of(int fiber) const { return fiber / shape_.threads; }
  [[nodiscard]] Warp& warp_of(int fiber) {
    Block& block = blocks_[static_cast<size_t>(block_of(fiber))];
    return block.warps[static_cast<size_t>(fiber % shape_.threads / kWarp)];
  }

  void order_blocks() {
    waiting_blocks_.resize(static_cast<size_t>(shape_.blocks));
    for (size_t i = 0; i < waiting_blocks_.size(); ++i)
      waiting_blocks_[i] = static_cast<int64_t>(i);
    if (options_.schedule == Schedule::Forward)
      std::reverse(waiting_blocks_.begin(), waiting_blocks_.end());
    if (options_.schedule != Schedule::Random) return;
    for (size_t i = waiting_blocks_.size(); i > 1; --i)
      std::swap(waiting_blocks_[i - 1], waiting_blocks_[random_.below32(static_cast<uint32_t>(i))]);
  }

  void make_fibers(size_t count) {
    while (fibers_.size() < count) {
      auto fiber = std::make_unique<Fiber>();
      fiber->impl = this;
      fiber->number = static_cast<int>(fibers_.size());
      fiber->context.start(&Impl::fiber_main, fiber.get());
      fibers_.push_back(std::move(fiber));
    }
  }

  void start_block(size_t slot) {
    Block& block = blocks_[slot];
    block.left = shape_.threads;
    block.at_barrier = 0;
    block.shared.assign(shape_.shared_bytes, std::byte{kGarbage});
    block.warps.assign(static_cast<size_t>(shape_.threads / kWarp), Warp{});
    const int64_t number = waiting_blocks_.back();
    waiting_blocks_.pop_back();
    for (int i = 0; i < shape_.threads; ++i) {
      const int fiber = static_cast<int>(slot) * shape_.threads + i;
      Thread& thread = fibers_[static_cast<size_t>(fiber)]->thread;
      thread.impl_ = this;
      thread.fiber_ = fiber;
      thread.index_ = i;
      thread.block_ = number;
      thread.block_size_ = shape_.threads;
      thread.num_blocks_ = shape_.blocks;
      thread.shared_ = block.shared.data();
      ready(fiber);
    }
  }

  void ready(int fiber) {
    fibers_[static_cast<size_t>(fiber)]->state = State::Ready;
    running_.push_back(fiber);
  }

  [[nodiscard]] size_t pick() {
    switch (options_.schedule) {
      case Schedule::Random:
        return random_.below32(static_cast<uint32_t>(running_.size()));
      case Schedule::Forward:
        return static_cast<size_t>(
            std::min_element(running_.begin(), running_.end()) - running_.begin()
        );
      case Schedule::Backward:
        return static_cast<size_t>(
            std::max_element(running_.begin(), running_.end()) - running_.begin()
        );
    }
    return 0;
  }

  void resume(size_t at) {
    const int number = running_[at];
    running_[at] = running_.back();
    running_.pop_back();
    Fiber& fiber = *fibers_[static_cast<size_t>(number)];
    scheduler_.switch_to(fiber.context);
    if (error_) abandon(std::exchange(error_, nullptr));
    if (fiber.state == State::Ready) running_.push_back(number);
    if (fiber.state != State::Idle) return;
    const auto slot = static_cast<size_t>(block_of(number));
    Block& block = blocks_[slot];
    if (block.at_barrier > 0) fail("a thread ends while others of its block wait at a barrier");
    if (warp_of(number).arrived > 0) fail("a thread ends while others of its warp wait for it");
    if (--block.left == 0 && !waiting_blocks_.empty()) start_block(slot);
  }

  [[noreturn]] void fail(const std::string& what) {
    abandon(std::make_exception_ptr(std::logic_error(what)));
  }

  // The stacks of threads that have not ended are lost with what is on them.
  [[noreturn]] void abandon(const std::exception_ptr& error) {
    for (auto& fiber : fibers_) {
      if (fiber->state != State::Idle) lost_.push_back(std::move(fiber));
    }
    std::erase(fibers_, nullptr);
    for (size_t i = 0; i < fibers_.size(); ++i) fibers_[i]->number = static_cast<int>(i);
    std::rethrow_exception(error);
  }

  // By a fiber: its state becomes `state`, and it returns when it is picked.
  void back_to_scheduler(int number, State state) {
    Fiber& fiber = *fibers_[static_cast<size_t>(number)];
    fiber.state = state;
    fiber.context.switch_to(scheduler_);
  }

  static void fiber_main(unsigned high, unsigned low) {
    auto* const fiber = std::bit_cast<Fiber*>(uint64_t{high} << 32 | low);
    fiber->context.arrived(nullptr);
    Impl* const impl = fiber->impl;
    while (!impl->leaving_) {
      try {
        (*impl->body_)(fiber->thread);
      } catch (...) {
        impl->error_ = std::current_exception();
      }
      fiber->state = State::Idle;
      fiber->context.switch_to(impl->scheduler_);
    }
    fiber->context.switch_to(impl->scheduler_);
  }

  EmulatorOptions options_;
  sampling::core::CounterRng random_;
  const std::function<void(Thread&)>* body_ = nullptr;
  gpu::LaunchShape shape_{};
  std::vector<int64_t> waiting_blocks_;  // the next one last
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::unique_ptr<Fiber>> lost_;
  std::vector<Block> blocks_;
  std::vector<int> running_;
  Context scheduler_;
  std::exception_ptr error_;
  bool leaving_ = false;
};

GpuEmulator::GpuEmulator(EmulatorOptions options) : impl_(std::make_unique<Impl>(options)) {}
GpuEmulator::~GpuEmulator() = default;

void GpuEmulator::run(const std::function<void(Thread&)>& body, const gpu::LaunchShape& shape) {
  impl_->run(body, shape);
}

void* GpuEmulator::allocate(size_t bytes) {
  void* const memory = std::malloc(std::max<size_t>(1, bytes));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, kGarbage, bytes);
  ++live_;
  return memory;
}

void GpuEmulator::free(void* memory) {
  if (memory == nullptr) return;
  --live_;
  std::free(memory);
}

void GpuEmulator::copy_within(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void GpuEmulator::fill(void* memory, int byte, size_t bytes) {
  if (bytes > 0) std::memset(memory, byte, bytes);
}

void GpuEmulator::Thread::step() {
  impl_->step(fiber_);
}

void GpuEmulator::Thread::meet_warp(int kind, uint64_t value) {
  impl_->meet_warp(fiber_, kind, value);
}

uint64_t GpuEmulator::Thread::met(int lane) const {
  return impl_->met(fiber_, lane);
}

uint32_t GpuEmulator::Thread::atomic_min(uint32_t* at, uint32_t value) {
  step();
  return std::exchange(*at, std::min(*at, value));
}

uint32_t GpuEmulator::Thread::atomic_add(uint32_t* at, uint32_t value) {
  step();
  return std::exchange(*at, *at + value);
}

uint64_t GpuEmulator::Thread::atomic_cas(uint64_t* at, uint64_t expected, uint64_t value) {
  step();
  const uint64_t before = *at;
  if (before == expected) *at = value;
  return before;
}

int64_t GpuEmulator::Thread::shuffle_up(int64_t value, int distance) {
  meet_warp(kShuffle, static_cast<uint64_t>(value));
  const int lane = index_ % kWarp;
  return static_cast<int64_t>(met(lane >= distance ? lane - distance : lane));
}

int64_t GpuEmulator::Thread::shuffle_xor(int64_t value, int bits) {
  meet_warp(kShuffle, static_cast<uint64_t>(value));
  return static_cast<int64_t>(met(index_ % kWarp ^ bits));
}

float GpuEmulator::Thread::shuffle_xor(float value, int bits) {
  meet_warp(kShuffle, std::bit_cast<uint32_t>(value));
  return std::bit_cast<float>(static_cast<uint32_t>(met(index_ % kWarp ^ bits)));
}

uint32_t GpuEmulator::Thread::ballot(bool value) {
  meet_warp(kBallot, value ? 1 : 0);
  uint32_t lanes = 0;
  for (int lane = 0; lane < kWarp; ++lane) lanes |= static_cast<uint32_t>(met(lane)) << lane;
  return lanes;
}

void GpuEmulator::Thread::sync_warp() {
  meet_warp(kSync, 0);
}

void GpuEmulator::Thread::sync() {
  impl_->sync(fiber_);
}

}  // namespace gnn::testing
