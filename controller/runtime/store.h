#pragma once

#include "controller/objects/meta.h"

#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gnn::runtime {

using objects::ObjectKey;

/// The objects of one kind as a watch shows them. One writer, the reflector; readers get immutable
/// objects that stay valid. A reader that wrote an object itself may put the server's answer in at
/// once (expect/fulfil), so that it never acts on its own past.
/// Threading: every method may be called from any thread.
template <class T>
class Store {
 public:
  using Pointer = std::shared_ptr<const T>;
  /// Which group an object belongs to, e.g. its job; empty: none.
  using IndexFunction = std::function<std::string(const T&)>;
  /// Called by the writer after the change, without the lock. `after` is null when it is gone.
  using Handler = std::function<void(const Pointer& before, const Pointer& after)>;

  explicit Store(IndexFunction index = {}) : index_(std::move(index)) {}

  /// Before the first write only.
  void on_change(Handler handler) { handler_ = std::move(handler); }

  [[nodiscard]] Pointer find(const ObjectKey& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(key);
    return found == objects_.end() ? nullptr : found->second;
  }

  [[nodiscard]] std::vector<Pointer> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<Pointer> objects;
    objects.reserve(objects_.size());
    for (const auto& [key, object] : objects_) objects.push_back(object);
    return objects;
  }

  /// The objects of one group, in order of their keys.
  [[nodiscard]] std::vector<Pointer> group(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    std::vector<Pointer> objects;
    const auto found = groups_.find(name);
    if (found == groups_.end()) return objects;
    objects.reserve(found->second.size());
    for (const ObjectKey& key : found->second) objects.push_back(objects_.at(key));
    return objects;
  }

  [[nodiscard]] size_t size() const {
    const std::lock_guard lock(mutex_);
    return objects_.size();
  }

  /// Whether a whole list of that namespace (empty: of all of them at once) has been seen.
  [[nodiscard]] bool synced(const std::string& namespace_ = {}) const {
    const std::lock_guard lock(mutex_);
    return synced_.contains(namespace_);
  }

  /// The writer's: a list takes the place of everything in that namespace (empty: of everything);
  /// what it lacks is gone, unless a reader wrote it after the list of that `version` was read.
  void replace(
      std::vector<Pointer> objects,
      const std::string& namespace_ = {},
      const std::string& version = {}
  ) {
    std::vector<std::pair<Pointer, Pointer>> changes;
    {
      const std::lock_guard lock(mutex_);
      std::unordered_map<ObjectKey, Pointer> before = take_all_locked(namespace_, version);
      std::erase_if(fulfilled_, [&](const ObjectKey& key) {
        if (!is_inside(key, namespace_)) return false;
        const auto written = before.find(key);
        if (written == before.end() || !is_newer(version_of(*written->second), version)) {
          return true;
        }
        put_locked(key, written->second);
        before.erase(written);
        return false;
      });
      for (Pointer& object : objects) {
        const ObjectKey key = key_of(*object);
        if (fulfilled_.contains(key)) continue;
        Pointer old;
        if (auto found = before.extract(key)) old = found.mapped();
        put_locked(key, object);
        if (!old || version_of(*old) != version_of(*object)) {
          changes.emplace_back(std::move(old), std::move(object));
        }
      }
      for (auto& [key, old] : before) changes.emplace_back(old, nullptr);
      synced_.insert(namespace_);
    }
    for (const auto& [old, object] : changes) notify(old, object);
  }

  /// The writer's: added or modified. What a reader wrote since is newer, and stays.
  void upsert(Pointer object) {
    Pointer old;
    {
      const std::lock_guard lock(mutex_);
      const ObjectKey key = key_of(*object);
      if (!confirm_locked(key, version_of(*object))) return;
      old = take_locked(key);
      put_locked(key, object);
    }
    notify(old, object);
  }

  /// The writer's: deleted, at that version. What a reader made since under that name stays.
  void erase(const ObjectKey& key, const std::string& version) {
    Pointer old;
    {
      const std::lock_guard lock(mutex_);
      if (!confirm_locked(key, version)) return;
      old = take_locked(key);
    }
    if (old) notify(old, nullptr);
  }

  /// A reader's, before it writes the object to the API server.
  void expect(const ObjectKey& key) {
    const std::lock_guard lock(mutex_);
    expected_[key].clear();
  }

  /// A reader's, with the server's answer. Taken only if it is newer than what a watch or a list
  /// has said since expect(): else the watch may already know better.
  void fulfil(Pointer object) {
    const std::lock_guard lock(mutex_);
    const ObjectKey key = key_of(*object);
    const auto expected = expected_.extract(key);
    if (!expected) return;
    const std::string& seen = expected.mapped();
    if (!seen.empty() && !is_newer(version_of(*object), seen)) return;
    take_locked(key);
    put_locked(key, object);
    fulfilled_.insert(key);
  }

  /// A reader's: the write failed.
  void forget(const ObjectKey& key) {
    const std::lock_guard lock(mutex_);
    expected_.erase(key);
  }

 private:
  /// What readers are about to write, with the version that was seen since; empty: none was.
  using Expectations = std::map<ObjectKey, std::string>;

  [[nodiscard]] static bool is_inside(const ObjectKey& key, const std::string& namespace_) {
    return namespace_.empty() || key.namespace_ == namespace_;
  }

  /// The API server counts its versions upwards, in decimal digits.
  [[nodiscard]] static bool is_newer(const std::string& version, const std::string& than) {
    const auto is_number = [](const std::string& text) {
      return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    };
    if (!is_number(version) || !is_number(than)) return false;
    return version.size() != than.size() ? version.size() > than.size() : version > than;
  }

  [[nodiscard]] static ObjectKey key_of(const T& object) {
    return {object.metadata.namespace_, object.metadata.name};
  }

  [[nodiscard]] static const std::string& version_of(const T& object) {
    return object.metadata.resource_version;
  }

  /// Whether what the watch says of an object is to be taken: not if a reader wrote it since.
  bool confirm_locked(const ObjectKey& key, const std::string& version) {
    if (fulfilled_.contains(key) && is_newer(version_of(*objects_.at(key)), version)) return false;
    fulfilled_.erase(key);
    const auto expected = expected_.find(key);
    if (expected != expected_.end()) see_locked(expected, version);
    return true;
  }

  /// The expected object was seen at `version`. Gives the expectation after it.
  Expectations::iterator see_locked(Expectations::iterator expected, const std::string& version) {
    if (version.empty())
      return expected_.erase(expected);  // of unknown age: newer, for all we know
    expected->second = version;
    return std::next(expected);
  }

  std::unordered_map<ObjectKey, Pointer> take_all_locked(
      const std::string& namespace_, const std::string& version
  ) {
    for (auto each = expected_.begin(); each != expected_.end();) {
      each = is_inside(each->first, namespace_) ? see_locked(each, version) : std::next(each);
    }
    std::vector<ObjectKey> keys;
    for (const auto& [key, object] : objects_) {
      if (is_inside(key, namespace_)) keys.push_back(key);
    }
    std::unordered_map<ObjectKey, Pointer> taken;
    for (const ObjectKey& key : keys) taken.emplace(key, take_locked(key));
    return taken;
  }

  void put_locked(const ObjectKey& key, const Pointer& object) {
    objects_[key] = object;
    if (!index_) return;
    const std::string group = index_(*object);
    if (!group.empty()) groups_[group].insert(key);
  }

  Pointer take_locked(const ObjectKey& key) {
    auto found = objects_.extract(key);
    if (!found) return nullptr;
    if (index_) {
      const auto group = groups_.find(index_(*found.mapped()));
      if (group != groups_.end()) {
        group->second.erase(key);
        if (group->second.empty()) groups_.erase(group);
      }
    }
    return found.mapped();
  }

  void notify(const Pointer& before, const Pointer& after) const {
    if (handler_) handler_(before, after);
  }

  const IndexFunction index_;
  Handler handler_;
  mutable std::mutex mutex_;
  std::unordered_map<ObjectKey, Pointer> objects_;
  std::unordered_map<std::string, std::set<ObjectKey>> groups_;
  Expectations expected_;
  std::set<ObjectKey> fulfilled_;  // put by a reader, not seen by the watch yet
  std::set<std::string> synced_;
};

}  // namespace gnn::runtime
