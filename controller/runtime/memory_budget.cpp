#include "controller/runtime/memory_budget.h"

#include <algorithm>
#include <utility>

namespace gnn::runtime {
namespace {

using objects::ObjectKey;

constexpr size_t kMostKnownLeftOut = 16'384;  // of a namespace and a resource; 32 bytes each

bool is_empty(const MemoryBudget::LeftOut& left_out) {
  return left_out.keys.empty() && !left_out.more;
}

std::string in_mib(int64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

MemoryBudget::Charge::~Charge() {
  if (!state_) return;
  auto state = state_->lock();
  state->used -= bytes_;
  const auto of_namespace = state->used_by.find(namespace_);
  of_namespace->second -= bytes_;
  if (of_namespace->second == 0) state->used_by.erase(of_namespace);
}

MemoryBudget::MemoryBudget(int64_t bytes)
    : limit_(bytes), state_(std::make_shared<Guarded<State>>()) {}

std::optional<MemoryBudget::Charge> MemoryBudget::admit(
    const std::string& name_space, int64_t bytes, int64_t instead_of
) {
  auto state = state_->lock();
  const int64_t free = limit_ - (state->used - instead_of + bytes);
  const int64_t after = used_by(*state, name_space) - instead_of + bytes;
  const bool has_room = instead_of > 0 ? after <= 3 * free : 2 * after <= 5 * free;
  if (!has_room) return std::nullopt;
  state->used += bytes;
  state->used_by[name_space] += bytes;
  return Charge(state_, name_space, bytes);
}

void MemoryBudget::leave_out(const std::string& resource, const ObjectKey& key) {
  auto state = state_->lock();
  add(state->left_out[key.namespace_][resource], key);
}

void MemoryBudget::add(LeftOut& left_out, const ObjectKey& key) {
  if (left_out.keys.size() < kMostKnownLeftOut) {
    left_out.keys.insert(hash_of(key));
  } else if (!left_out.keys.contains(hash_of(key))) {
    left_out.more = true;
  }
}

void MemoryBudget::not_left_out(const std::string& resource, const ObjectKey& key) {
  auto state = state_->lock();
  const auto found = state->left_out.find(key.namespace_);
  if (found == state->left_out.end()) return;
  const auto of_resource = found->second.find(resource);
  if (of_resource == found->second.end()) return;
  of_resource->second.keys.erase(hash_of(key));
  if (!is_empty(of_resource->second)) return;
  found->second.erase(of_resource);
  if (found->second.empty()) state->left_out.erase(found);
}

void MemoryBudget::replace_left_out(
    const std::string& resource, const std::string& name_space, LeftOutByNamespace left_out
) {
  auto state = state_->lock();
  for (auto& [name, resources] : state->left_out) {
    if (name_space.empty() || name == name_space) resources.erase(resource);
  }
  std::erase_if(state->left_out, [](const auto& each) { return each.second.empty(); });
  for (auto& [of, objects] : left_out) {
    if (!is_empty(objects)) state->left_out[of][resource] = std::move(objects);
  }
}

bool MemoryBudget::is_left_out(const std::string& resource, const ObjectKey& key) const {
  const auto state = state_->lock();
  const auto found = state->left_out.find(key.namespace_);
  if (found == state->left_out.end()) return false;
  const auto of_resource = found->second.find(resource);
  return of_resource != found->second.end() && of_resource->second.keys.contains(hash_of(key));
}

size_t MemoryBudget::left_out(const std::string& resource) const {
  const auto state = state_->lock();
  size_t sum = 0;
  for (const auto& [name, resources] : state->left_out) {
    const auto found = resources.find(resource);
    if (found != resources.end()) sum += found->second.keys.size() + (found->second.more ? 1 : 0);
  }
  return sum;
}

bool MemoryBudget::has_room_again(const std::string& resource) const {
  const auto state = state_->lock();
  const int64_t free = limit_ - state->used;
  return std::ranges::any_of(state->left_out, [&](const auto& each) {
    return each.second.contains(resource) && 2 * used_by(*state, each.first) <= 3 * free;
  });
}

std::string MemoryBudget::complaint(const std::string& name_space) const {
  const auto state = state_->lock();
  const auto found = state->left_out.find(name_space);
  if (found == state->left_out.end()) return {};
  std::string resources;
  for (const auto& [resource, left_out] : found->second) {
    resources += (resources.empty() ? "" : ", ") + resource;
  }
  return "Namespace " + name_space +
         " has more objects than the operator keeps of one namespace (" + in_mib(limit_ / 4 * 3) +
         " of memory, --cache-memory); some " + resources +
         " are left out: delete finished GNNJobs, and objects with the label gnn.dev/job that no "
         "GNNJob made";
}

int64_t MemoryBudget::used() const {
  return state_->lock()->used;
}

int64_t MemoryBudget::used_by(const std::string& name_space) const {
  return used_by(*state_->lock(), name_space);
}

int64_t MemoryBudget::used_by(const State& state, const std::string& name_space) {
  const auto found = state.used_by.find(name_space);
  return found == state.used_by.end() ? 0 : found->second;
}

size_t MemoryBudget::hash_of(const ObjectKey& key) {
  return std::hash<ObjectKey>{}(key);
}

}  // namespace gnn::runtime
