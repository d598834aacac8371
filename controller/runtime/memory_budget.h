#pragma once

#include "common/guarded.h"
#include "controller/objects/meta.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

namespace gnn::runtime {

/// How much memory the caches may take, shared between namespaces, and which objects are left out
/// because their namespace has its share. A namespace may take at most three times of what is free
/// then: one alone three quarters, and whatever several take, something is free for the next.
/// Threads: every method may be called from any thread.
class MemoryBudget {
  struct State;

 public:
  /// What an object takes, until this ends.
  class Charge {
   public:
    Charge(std::shared_ptr<Guarded<State>> state, std::string name_space, int64_t bytes)
        : state_(std::move(state)), namespace_(std::move(name_space)), bytes_(bytes) {}
    ~Charge();
    Charge(Charge&& other) noexcept = default;
    Charge& operator=(Charge&&) = delete;
    Charge(const Charge&) = delete;
    Charge& operator=(const Charge&) = delete;

   private:
    std::shared_ptr<Guarded<State>> state_;  // null: moved from
    std::string namespace_;
    int64_t bytes_;
  };

  /// Objects that are left out, by their keys' hashes.
  struct LeftOut {
    std::unordered_set<size_t> keys{};
    bool more = false;  ///< so many that not all are known
  };
  using LeftOutByNamespace = std::map<std::string, LeftOut>;

  explicit MemoryBudget(int64_t bytes);

  /// Charges the namespace with an object of that size; nothing if it has its share. `instead_of` is
  /// the size of the object whose place it takes, 0 for a new one: the last sixteenth of the budget is
  /// for objects that grow, not for new ones.
  [[nodiscard]] std::optional<Charge> admit(
      const std::string& name_space, int64_t bytes, int64_t instead_of
  );

  /// An object of that resource was not admitted.
  void leave_out(const std::string& resource, const objects::ObjectKey& key);
  /// It was admitted, or is gone.
  void not_left_out(const std::string& resource, const objects::ObjectKey& key);
  /// All that a list of that namespace (empty: of all) left out.
  void replace_left_out(
      const std::string& resource, const std::string& name_space, LeftOutByNamespace left_out
  );
  /// Adds a key to `left_out`, as long as few enough are known.
  static void add(LeftOut& left_out, const objects::ObjectKey& key);

  [[nodiscard]] bool is_left_out(const std::string& resource, const objects::ObjectKey& key) const;
  [[nodiscard]] size_t left_out(const std::string& resource) const;
  /// Whether a namespace with such objects has come down to half of its share: a list would bring some
  /// of them.
  [[nodiscard]] bool has_room_again(const std::string& resource) const;
  /// That objects of the namespace are left out, and of which resources, as a sentence for users; empty:
  /// none are.
  [[nodiscard]] std::string complaint(const std::string& name_space) const;

  [[nodiscard]] int64_t limit() const { return limit_; }
  [[nodiscard]] int64_t used() const;
  [[nodiscard]] int64_t used_by(const std::string& name_space) const;

 private:
  using LeftOutByResource = std::map<std::string, LeftOut>;
  struct State {
    int64_t used = 0;
    std::map<std::string, int64_t> used_by{};             // by namespace
    std::map<std::string, LeftOutByResource> left_out{};  // by namespace; without empty ones
  };

  [[nodiscard]] static int64_t used_by(const State& state, const std::string& name_space);
  [[nodiscard]] static size_t hash_of(const objects::ObjectKey& key);

  const int64_t limit_;
  std::shared_ptr<Guarded<State>> state_;  // charges may outlive the budget
};

/// The same object, with what it takes of the budget as long as it is referred to.
template <class T>
[[nodiscard]] std::shared_ptr<const T> with_charge(
    const std::shared_ptr<const T>& object, MemoryBudget::Charge charge
) {
  struct Kept {
    T object;
    MemoryBudget::Charge charge;
  };
  const auto kept = std::make_shared<const Kept>(Kept{*object, std::move(charge)});
  return {kept, &kept->object};
}

}  // namespace gnn::runtime
