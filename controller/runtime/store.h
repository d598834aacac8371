#pragma once

#include "common/guarded.h"
#include "controller/objects/meta.h"
#include "controller/runtime/own_writes.h"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gnn::runtime {

using objects::ObjectKey;

/// The objects of one kind, as a watch shows them. The reflector is the only writer; readers get
/// immutable objects that stay valid. A reader that writes an object to the API server may store
/// the reply at once (expect() and fulfil()), so that it never acts on a state older than its own
/// write.
/// Threads: every method may be called from any thread.
template <class T>
class Store {
 public:
  using Pointer = std::shared_ptr<const T>;
  /// The group that an object belongs to, e.g. its job; empty: none.
  using IndexFunction = std::function<std::string(const T&)>;
  /// Called by the writer after the change, without the lock. `after` is null for a deleted object.
  using Handler = std::function<void(const Pointer& before, const Pointer& after)>;

  explicit Store(IndexFunction index = {}) : index_(std::move(index)) {}

  /// To be called before the first write.
  void on_change(Handler handler) { handler_ = std::move(handler); }

  [[nodiscard]] Pointer find(const ObjectKey& key) const {
    auto state = state_.lock();
    const auto found = state->objects.find(key);
    return found == state->objects.end() ? nullptr : found->second;
  }

  [[nodiscard]] std::vector<Pointer> all() const {
    auto state = state_.lock();
    std::vector<Pointer> objects;
    objects.reserve(state->objects.size());
    for (const auto& [key, object] : state->objects) objects.push_back(object);
    return objects;
  }

  /// The objects of one group, in order of their keys.
  [[nodiscard]] std::vector<Pointer> group(const std::string& name) const {
    auto state = state_.lock();
    std::vector<Pointer> objects;
    const auto found = state->groups.find(name);
    if (found == state->groups.end()) return objects;
    objects.reserve(found->second.size());
    for (const ObjectKey& key : found->second) objects.push_back(state->objects.at(key));
    return objects;
  }

  [[nodiscard]] size_t group_size(const std::string& name) const {
    auto state = state_.lock();
    const auto found = state->groups.find(name);
    return found == state->groups.end() ? 0 : found->second.size();
  }

  [[nodiscard]] size_t size() const {
    auto state = state_.lock();
    return state->objects.size();
  }

  /// Whether a complete list of that namespace (empty: of all namespaces) has been seen.
  [[nodiscard]] bool synced(const std::string& namespace_ = {}) const {
    auto state = state_.lock();
    return state->synced.contains(namespace_);
  }

  /// For the writer: replaces everything in that namespace (empty: in all) by a list. Objects that
  /// it lacks are gone, unless a reader wrote them after the list of that `version` was read.
  void replace(
      std::vector<Pointer> objects,
      const std::string& namespace_ = {},
      const std::string& version = {}
  ) {
    std::vector<std::pair<Pointer, Pointer>> changes;
    {
      auto state = state_.lock();
      const std::set<ObjectKey> newer = show_list(*state, namespace_, version);
      std::unordered_map<ObjectKey, Pointer> before = take_all(*state, namespace_, newer);
      for (Pointer& object : objects) {
        const ObjectKey key = key_of(*object);
        if (newer.contains(key)) continue;
        Pointer old;
        if (auto found = before.extract(key)) old = found.mapped();
        put(*state, key, object);
        if (!old || version_of(*old) != version_of(*object)) {
          changes.emplace_back(std::move(old), std::move(object));
        }
      }
      for (auto& [key, old] : before) changes.emplace_back(old, nullptr);
      state->synced.insert(namespace_);
    }
    for (const auto& [old, object] : changes) notify(old, object);
  }

  /// For the writer: the kind is not served any more. Nothing is left in that namespace (empty: in any),
  /// and no list of it counts as seen.
  void clear(const std::string& namespace_ = {}) {
    std::unordered_map<ObjectKey, Pointer> gone;
    {
      auto state = state_.lock();
      gone = take_all(*state, namespace_, show_list(*state, namespace_, ""));
      state->synced.erase(namespace_);
    }
    for (const auto& [key, old] : gone) notify(old, nullptr);
  }

  /// For the writer: an object was added or modified. A newer one that a reader stored stays, and
  /// what a reader stored itself is no change.
  void upsert(const Pointer& object) {
    Pointer old;
    {
      auto state = state_.lock();
      const ObjectKey key = key_of(*object);
      if (!show(*state, key, version_of(*object))) return;
      old = take(*state, key);
      put(*state, key, object);
    }
    const bool is_echo =
        old && !version_of(*old).empty() && version_of(*old) == version_of(*object);
    if (!is_echo) notify(old, object);
  }

  /// For the writer: an object was deleted at that version. A newer one of that name, stored by a
  /// reader, stays.
  void erase(const ObjectKey& key, const std::string& version) {
    Pointer old;
    {
      auto state = state_.lock();
      if (!show(*state, key, version)) return;
      old = take(*state, key);
    }
    if (old) notify(old, nullptr);
  }

  /// For the writer: the object has no room here. Whoever is told of changes sees it vanish, even if
  /// it never was here.
  void leave_out(const Pointer& object) {
    {
      auto state = state_.lock();
      const ObjectKey key = key_of(*object);
      if (!show(*state, key, version_of(*object))) return;
      take(*state, key);
    }
    notify(object, nullptr);
  }

  /// For a reader: it is about to write the object to the API server.
  void expect(const ObjectKey& key) {
    auto state = state_.lock();
    state->own_writes.expect(key);
  }

  /// For a reader: the server's reply to its write. Stored only if it is newer than what the writer
  /// has stored since expect().
  void fulfil(const Pointer& object) {
    auto state = state_.lock();
    const ObjectKey key = key_of(*object);
    if (!state->own_writes.fulfil(key, version_of(*object))) return;
    take(*state, key);
    put(*state, key, object);
  }

  /// For a reader: its write failed.
  void forget(const ObjectKey& key) {
    auto state = state_.lock();
    state->own_writes.forget(key);
  }

 private:
  struct State {
    std::unordered_map<ObjectKey, Pointer> objects;
    std::unordered_map<std::string, std::set<ObjectKey>> groups;
    OwnWrites own_writes;
    std::set<std::string> synced;
  };

  [[nodiscard]] static bool is_inside(const ObjectKey& key, const std::string& namespace_) {
    return namespace_.empty() || key.namespace_ == namespace_;
  }

  [[nodiscard]] static ObjectKey key_of(const T& object) {
    return {object.metadata.namespace_, object.metadata.name};
  }

  [[nodiscard]] static const std::string& version_of(const T& object) {
    return object.metadata.resource_version;
  }

  /// Whether to store what the watch says of an object: not if a reader has stored a newer one.
  static bool show(State& state, const ObjectKey& key, const std::string& version) {
    const auto stored = state.objects.find(key);
    return state.own_writes.show(
        key, version, stored == state.objects.end() ? "" : version_of(*stored->second)
    );
  }

  /// A list of that version takes the place of all objects but those that are returned.
  static std::set<ObjectKey> show_list(
      State& state, const std::string& namespace_, const std::string& version
  ) {
    std::set<ObjectKey> newer;
    for (const ObjectKey& key : state.own_writes.keys(namespace_)) {
      if (!show(state, key, version)) newer.insert(key);
    }
    return newer;
  }

  std::unordered_map<ObjectKey, Pointer> take_all(
      State& state, const std::string& namespace_, const std::set<ObjectKey>& but
  ) {
    std::vector<ObjectKey> keys;
    for (const auto& [key, object] : state.objects) {
      if (is_inside(key, namespace_) && !but.contains(key)) keys.push_back(key);
    }
    std::unordered_map<ObjectKey, Pointer> taken;
    for (const ObjectKey& key : keys) taken.emplace(key, take(state, key));
    return taken;
  }

  void put(State& state, const ObjectKey& key, const Pointer& object) {
    state.objects[key] = object;
    if (!index_) return;
    const std::string group = index_(*object);
    if (!group.empty()) state.groups[group].insert(key);
  }

  Pointer take(State& state, const ObjectKey& key) {
    auto found = state.objects.extract(key);
    if (!found) return nullptr;
    if (index_) {
      const auto group = state.groups.find(index_(*found.mapped()));
      if (group != state.groups.end()) {
        group->second.erase(key);
        if (group->second.empty()) state.groups.erase(group);
      }
    }
    return found.mapped();
  }

  void notify(const Pointer& before, const Pointer& after) const {
    if (handler_) handler_(before, after);
  }

  const IndexFunction index_;
  Handler handler_;
  mutable Guarded<State> state_;
};

}  // namespace gnn::runtime
