#include "controller/reconcile/data_key.h"

#include "common/contract.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/desired.h"

#include <optional>
#include <string>

namespace gnn::reconcile {
namespace {

// The random part of the recorded Secret's name.
std::optional<std::string> recorded_key(const api::GnnJob& job) {
  const auto& secret = job.status.data_key_secret;
  if (!secret) return std::nullopt;
  return contract::suffix_of_data_key(job.metadata.name, *secret);
}

// The CRD is older than the controller.
bool was_not_kept(const Observed& observed) {
  const auto& cut = observed.cut_status;
  return cut && cut->sent.data_key_secret && !cut->kept.data_key_secret;
}

}  // namespace

bool wants_data_key(const Observed& observed) {
  return serves_data(observed.job) && !recorded_key(observed.job);
}

bool lacks_data_key(Pass& pass) {
  if (!wants_data_key(pass.in) || pass.preparing()) return false;
  const NewDataKey& key = pass.in.new_data_key;
  objects::Secret secret = desired_data_key(pass.job(), key.suffix);
  pass.status().data_key_secret = secret.metadata.name;
  if (!key.made) {
    pass.out.actions.emplace_back(CreateDataKey{std::move(secret)});
    pass.out.status_needs_success = true;
  }
  if (!was_not_kept(pass.in)) {
    pass.requeue(Duration::zero());
    return true;
  }
  pass.set(
      condition::kScheduled,
      false,
      reason::kCreating,
      "The CRD is older than the operator and lacks status.dataKeySecret: upgrade the CRD"
  );
  pass.requeue(pass.in.config.refusal_retry);
  return true;
}

bool has_other_key(const Pass& pass, const objects::Pod& pod) {
  if (!serves_data(pass.job())) return false;
  const auto recorded = recorded_key(pass.job());
  const auto label = pod.metadata.labels.find(std::string(contract::kLabelDataKey));
  return !recorded || label == pod.metadata.labels.end() || label->second != *recorded;
}

void renew_data_key(Pass& pass, FailureKind failure) {
  if (failure == FailureKind::NotStarted) pass.status().data_key_secret.reset();
}

}  // namespace gnn::reconcile
