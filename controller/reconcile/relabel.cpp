#include "controller/reconcile/relabel.h"

#include "common/contract.h"
#include "controller/reconcile/desired.h"

#include <algorithm>
#include <string>
#include <utility>

namespace gnn::reconcile {

namespace {

// None if it is not the name of one of the job's pods.
Labels labels_by_name(const api::GnnJob& job, const std::string& pod) {
  if (contract::attempt_of_prepare_pod(job.metadata.name, pod)) return identifying_labels(job);
  if (const auto server = contract::numbers_of_server_pod(job.metadata.name, pod)) {
    return identifying_labels(job, ServerPlace{.server = server->server});
  }
  const auto numbers = contract::numbers_of_pod(job.metadata.name, pod);
  if (!numbers) return {};
  return identifying_labels(
      job, PodPlace{.attempt = numbers->attempt, .node = numbers->node, .restart = numbers->restart}
  );
}

}  // namespace

void restore_labels(Pass& pass) {
  for (const objects::Pod& pod : pass.in.pods) {
    const objects::ObjectMeta& meta = pod.metadata;
    if (!is_owned_by(meta, pass.job()) || is_impostor(pod, pass.in)) continue;
    Labels labels = labels_by_name(pass.job(), meta.name);
    const bool intact = std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
      const auto found = meta.labels.find(label.first);
      return found != meta.labels.end() && found->second == label.second;
    });
    if (!intact)
      pass.out.actions.emplace_back(
          RelabelPod{meta.name, meta.uid, meta.resource_version, std::move(labels)}
      );
  }
}

}  // namespace gnn::reconcile
