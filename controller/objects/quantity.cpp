#include "controller/objects/quantity.h"

namespace gnn::objects {

api::ResourceList requests_of(const Pod& pod) {
  api::ResourceList sum;
  for (const Container& each : pod.spec.containers) {
    api::ResourceList requests = each.resources.requests;
    requests.insert(each.resources.limits.begin(), each.resources.limits.end());
    add_resources(sum, requests, 1);
  }
  return sum;
}

void add_resources(api::ResourceList& sum, const api::ResourceList& each, int64_t count) {
  for (const auto& [name, amount] : each) {
    const auto more = Quantity::parse(amount);
    if (!more) continue;  // the API server refuses the pod
    Quantity total = Quantity::parse(sum[name]).value_or(Quantity());
    total += more->times(count);
    sum[name] = total.text();
  }
}

}  // namespace gnn::objects
