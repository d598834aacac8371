#include "controller/reconcile/refusals.h"

#include <algorithm>

namespace gnn::reconcile {

bool same_refusals(const std::vector<ApiRefusal>& a, const std::vector<ApiRefusal>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.kind == y.kind && x.object == y.object && x.message == y.message;
  });
}

}  // namespace gnn::reconcile
