#include "controller/reconcile/relabel.h"

#include "common/contract.h"
#include "controller/reconcile/desired.h"

#include <algorithm>

namespace gnn::reconcile {

void restore_labels(Pass& pass) {
  for (const objects::Pod& pod : pass.in.pods) {
    const objects::ObjectMeta& meta = pod.metadata;
    const auto numbers = contract::numbers_of_pod(pass.job().metadata.name, meta.name);
    if (!numbers || !is_owned_by(meta, pass.job())) continue;
    Labels labels = identifying_labels(
        pass.job(),
        {.attempt = numbers->attempt, .node = numbers->node, .restart = numbers->restart}
    );
    const bool intact = std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
      const auto found = meta.labels.find(label.first);
      return found != meta.labels.end() && found->second == label.second;
    });
    if (!intact) pass.out.actions.emplace_back(RelabelPod{meta.name, meta.uid, std::move(labels)});
  }
}

}  // namespace gnn::reconcile
