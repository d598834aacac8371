#include "tests/controller/app/simulation/cache_feed.h"

#include "common/contract.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace gnn::simulation {

template <class T>
void CacheFeed::add(const std::string& name, runtime::Store<T>& store, bool all) {
  const auto decoded = [](const Json& json) -> std::shared_ptr<const T> {
    auto object = objects::ResourceTraits<T>::decode(json);
    return object ? std::make_shared<const T>(std::move(*object)) : nullptr;
  };
  Kind kind;
  kind.name = name;
  kind.all = all;
  kind.replace = [&store, decoded](const std::vector<Object>& objects, const std::string& version) {
    std::vector<std::shared_ptr<const T>> list;
    for (const Object& each : objects) {
      if (auto object = decoded(*each)) list.push_back(std::move(object));
    }
    store.replace(std::move(list), "", version);
  };
  kind.upsert = [&store, decoded](const Json& json) {
    if (const auto object = decoded(json)) store.upsert(object);
  };
  kind.erase = [&store](const ObjectKey& key, const std::string& version) {
    store.erase(key, version);
  };
  kind.clear = [&store] { store.clear(); };
  kinds_.push_back(std::move(kind));
}

CacheFeed::CacheFeed(const ApiServer& server, app::Caches& caches) : server_(server) {
  add(kinds::kJobs, caches.jobs, true);
  add(kinds::kPods, caches.pods);
  add(kinds::kServices, caches.services);
  add(kinds::kConfigMaps, caches.config_maps);
  add(kinds::kNetworkPolicies, caches.network_policies);
  add(kinds::kWorkloads, caches.workloads_v1beta2);
  kinds_.back().watched = false;
  add(kinds::kGroups, caches.coscheduling_groups);
  kinds_.back().watched = false;
}

bool CacheFeed::selects(const Kind& kind, const Object& object) const {
  return object && (kind.all || !label_in(*object, contract::kLabelJob).empty());
}

void CacheFeed::list(Kind& kind) {
  std::vector<Object> objects;
  for (const auto& [key, object] : server_.all(kind.name)) {
    if (selects(kind, object)) objects.push_back(object);
  }
  kind.next = server_.history(kind.name).size();
  kind.listed = true;
  kind.replace(objects, std::to_string(server_.version()));
}

void CacheFeed::list_all() {
  for (Kind& kind : kinds_) {
    kind.blind_until = Duration::zero();
    if (kind.watched) list(kind);
  }
}

const CacheFeed::Kind& CacheFeed::kind_of(const std::string& name) const {
  return *std::ranges::find(kinds_, name, &Kind::name);
}

void CacheFeed::watch(const std::string& name, bool watched) {
  Kind& kind = *std::ranges::find(kinds_, name, &Kind::name);
  if (kind.watched == watched) return;
  kind.watched = watched;
  if (watched) return list(kind);
  kind.listed = false;
  kind.clear();
}

bool CacheFeed::watches(const std::string& name) const {
  return kind_of(name).watched && kind_of(name).listed;
}

bool CacheFeed::show(Kind& kind) {
  const auto& history = server_.history(kind.name);
  while (kind.next < history.size()) {
    const Change& change = history[kind.next++];
    const bool before = selects(kind, change.before);
    const bool after = !change.gone && selects(kind, change.after);
    if (after) {
      kind.upsert(*change.after);
    } else if (before) {
      kind.erase(key_in(*change.after), std::to_string(change.version));
    } else {
      continue;
    }
    return true;
  }
  return false;
}

bool CacheFeed::show_one(Dice& dice, Duration now) {
  std::vector<Kind*> behind;
  for (Kind& kind : kinds_) {
    const bool sees = kind.watched && now >= kind.blind_until;
    if (sees && kind.next < server_.history(kind.name).size()) behind.push_back(&kind);
  }
  return !behind.empty() && show(*dice.pick(behind));
}

void CacheFeed::show_all() {
  for (Kind& kind : kinds_) {
    kind.blind_until = Duration::zero();
    while (kind.watched && show(kind)) {
    }
  }
}

void CacheFeed::relist(Dice& dice) {
  Kind& kind = kinds_[dice.below(kinds_.size())];
  if (kind.watched) list(kind);
}

void CacheFeed::blind(Dice& dice, Duration until) {
  kinds_[dice.below(kinds_.size())].blind_until = until;
}

}  // namespace gnn::simulation
