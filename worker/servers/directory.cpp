#include "worker/servers/directory.h"

#include <algorithm>
#include <utility>

namespace gnn::servers {

std::vector<LiveServer> Directory::Listing::holders_of(int64_t part, int64_t partitions) const {
  std::vector<LiveServer> holders;
  std::ranges::copy_if(servers, std::back_inserter(holders), [&](const LiveServer& each) {
    return part < 0 || each.server % partitions == part;
  });
  return holders;
}

void Directory::update(std::vector<LiveServer> servers) {
  std::ranges::sort(servers, [](const LiveServer& a, const LiveServer& b) {
    return std::pair(a.server, -a.restart) < std::pair(b.server, -b.restart);
  });
  const auto same = std::ranges::unique(servers, {}, &LiveServer::server);
  servers.erase(same.begin(), same.end());
  {
    const auto state = state_.lock();
    const Listing& before = *state->listing;
    if (before.version > 0 && before.servers == servers) return;
    state->listing = std::make_shared<const Listing>(
        Listing{.version = before.version + 1, .servers = std::move(servers)}
    );
  }
  state_.notify_all();
  const auto listeners = listeners_->lock();
  for (const auto& [number, listener] : listeners->all) listener();
}

std::shared_ptr<const Directory::Listing> Directory::read() const {
  return state_.lock()->listing;
}

std::shared_ptr<const Directory::Listing> Directory::wait_for_change(
    int64_t version, Clock& clock, MonotonicPoint deadline
) const {
  auto state = state_.lock();
  state.wait_until(clock, deadline, [&](const State& now) {
    return now.listing->version != version;
  });
  return state->listing;
}

std::shared_ptr<void> Directory::subscribe(std::function<void()> listener) {
  const auto all = listeners_->lock();
  const int64_t number = all->next++;
  all->all.emplace(number, std::move(listener));
  return {nullptr, [listeners = listeners_, number](void*) {
            listeners->lock()->all.erase(number);
          }};
}

}  // namespace gnn::servers
