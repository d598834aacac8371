#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gnn::sampling {

/// Lends objects and takes them back when the last copy of the loan is gone, so that large buffers
/// are mapped once and not once per batch. Loans may outlive the recycler. Threads: any.
template <class T>
class Recycler {
 public:
  explicit Recycler(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)) {}

  [[nodiscard]] std::shared_ptr<T> borrow() {
    std::unique_ptr<T> object;
    {
      const std::lock_guard lock(shelf_->mutex);
      if (!shelf_->free.empty()) {
        object = std::move(shelf_->free.back());
        shelf_->free.pop_back();
      }
    }
    if (object == nullptr) object = make_();
    return {object.release(), [shelf = shelf_](T* returned) {
              std::unique_ptr<T> owned(returned);
              const std::lock_guard lock(shelf->mutex);
              shelf->free.push_back(std::move(owned));
            }};
  }

  /// Calls visit(object) for each object that is not lent at the moment.
  template <class Visit>
  void for_each_free(const Visit& visit) const {
    const std::lock_guard lock(shelf_->mutex);
    for (const auto& object : shelf_->free) visit(*object);
  }

 private:
  struct Shelf {
    std::mutex mutex;
    std::vector<std::unique_ptr<T>> free;
  };

  std::function<std::unique_ptr<T>()> make_;
  std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
};

}  // namespace gnn::sampling
