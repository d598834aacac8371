#include "worker/comm/reduce_timer.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace gnn::comm {

ReduceTimer::Moment ReduceTimer::now() const {
  Moment moment{.host = std::chrono::steady_clock::now(), .device = std::nullopt};
  if (device_.is_cpu()) return moment;
  const c10::impl::VirtualGuardImpl guard(device_.type());
  moment.device.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);  // the one with a time
  moment.device->record(guard.getStream(device_));
  return moment;
}

void ReduceTimer::ready() {
  ready_ = now();
}

void ReduceTimer::reduced() {
  reduced_ = now();
}

double ReduceTimer::seconds() const {
  if (!ready_ || !reduced_) return 0;
  if (ready_->device) return ready_->device->elapsedTime(*reduced_->device) / 1000;  // from ms
  return std::chrono::duration<double>(reduced_->host - ready_->host).count();
}

}  // namespace gnn::comm
