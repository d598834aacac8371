#include "worker/rpc/event_loop.h"

#include "worker/rpc/loop_context.h"

namespace gnn::rpc {

EventLoop::EventLoop() : context_(std::make_unique<internal::LoopContext>()) {}
EventLoop::~EventLoop() = default;

}  // namespace gnn::rpc
