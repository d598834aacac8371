#include "controller/runtime/own_writes.h"

namespace gnn::runtime {

using objects::ObjectKey;

void OwnWrites::expect(const ObjectKey& key) {
  expected_[key].clear();
}

void OwnWrites::forget(const ObjectKey& key) {
  expected_.erase(key);
}

bool OwnWrites::fulfil(const ObjectKey& key, const std::string& version) {
  const auto expected = expected_.extract(key);
  if (!expected) return false;
  const std::string& shown = expected.mapped();
  if (!shown.empty() && !objects::is_newer_version(version, shown)) return false;
  known_.insert(key);
  return true;
}

bool OwnWrites::show(const ObjectKey& key, const std::string& version, const std::string& stored) {
  if (known_.contains(key) && objects::is_newer_version(stored, version)) return false;
  known_.erase(key);
  const auto expected = expected_.find(key);
  if (expected == expected_.end()) return true;
  if (version.empty()) {
    expected_.erase(expected);
  } else {
    expected->second = version;
  }
  return true;
}

std::vector<ObjectKey> OwnWrites::keys(const std::string& namespace_) const {
  std::set<ObjectKey> all = known_;
  for (const auto& [key, shown] : expected_) all.insert(key);
  std::erase_if(all, [&](const ObjectKey& key) {
    return !namespace_.empty() && key.namespace_ != namespace_;
  });
  return {all.begin(), all.end()};
}

}  // namespace gnn::runtime
