#include "controller/app/progress_pace.h"

#include <algorithm>

namespace gnn::app {
namespace {

// Leaves room for the passes that news cause.
constexpr auto kOneRequest = std::chrono::milliseconds(55);
constexpr int kMostDoublings = 4;

}  // namespace

Duration ProgressPace::watch(const objects::ObjectKey& job) {
  const auto state = state_.lock();
  silences_of(*state, job);
  return interval(*state, job);
}

void ProgressPace::forget(const objects::ObjectKey& job) {
  const auto state = state_.lock();
  const auto found = state->silences.find(job.namespace_);
  if (found == state->silences.end()) return;
  state->jobs -= found->second.erase(job.name);
  if (found->second.empty()) state->silences.erase(found);
}

Duration ProgressPace::answered(const objects::ObjectKey& job) {
  const auto state = state_.lock();
  silences_of(*state, job) = 0;
  return interval(*state, job);
}

Duration ProgressPace::silent(const objects::ObjectKey& job) {
  const auto state = state_.lock();
  int& silences = silences_of(*state, job);
  silences = std::min(silences + 1, kMostDoublings);
  return interval(*state, job);
}

int& ProgressPace::silences_of(State& state, const objects::ObjectKey& job) const {
  const auto [found, is_new] = state.silences[job.namespace_].try_emplace(job.name);
  if (is_new) ++state.jobs;
  return found->second;
}

// Each namespace may cause an equal part of 18 requests per second, or one in proportion to its jobs if
// that is more.
Duration ProgressPace::interval(const State& state, const objects::ObjectKey& job) const {
  const auto& jobs = state.silences.at(job.namespace_);
  const size_t turns = std::min(state.jobs, jobs.size() * state.silences.size());
  const Duration fair = std::max<Duration>(shortest_, kOneRequest * static_cast<int64_t>(turns));
  const Duration doubled = shortest_ * (int64_t{1} << jobs.at(job.name));
  return std::max(fair, std::min(doubled, std::max(shortest_, kLongestSilence)));
}

}  // namespace gnn::app
