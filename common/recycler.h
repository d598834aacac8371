#pragma once

#include "common/guarded.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace gnn {

/// Lends objects and takes each back when the last copy of its loan goes, so that large buffers are
/// not mapped anew for every batch. Loans may outlive the recycler.
/// Threads: safe to call from any thread.
template <class T>
class Recycler {
 public:
  explicit Recycler(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)) {}

  [[nodiscard]] std::shared_ptr<T> borrow() {
    std::unique_ptr<T> object = take_idle();
    if (object == nullptr) object = make_();
    return {object.release(), [idle = idle_](T* returned) {
              std::unique_ptr<T> owned(returned);
              idle->lock()->push_back(std::move(owned));
            }};
  }

  /// Calls visit(object) for each object that is not lent now.
  template <class Visit>
  void for_each_idle(const Visit& visit) const {
    const auto idle = idle_->lock();
    for (const auto& object : *idle) visit(*object);
  }

 private:
  using Idle = Guarded<std::vector<std::unique_ptr<T>>>;

  [[nodiscard]] std::unique_ptr<T> take_idle() {
    const auto idle = idle_->lock();
    if (idle->empty()) return nullptr;
    std::unique_ptr<T> object = std::move(idle->back());
    idle->pop_back();
    return object;
  }

  std::function<std::unique_ptr<T>()> make_;
  std::shared_ptr<Idle> idle_ = std::make_shared<Idle>();
};

}  // namespace gnn
