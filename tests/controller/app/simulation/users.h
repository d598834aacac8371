#pragma once

#include "common/api/gnn_job.h"
#include "tests/controller/app/simulation/api_server.h"
#include "tests/controller/app/simulation/dice.h"

#include <map>
#include <optional>
#include <set>
#include <string>

namespace gnn::simulation {

/// Whoever makes jobs, and whoever else writes in their namespaces: users, webhooks, administrators.
class Users {
 public:
  Users(ApiServer& server, Dice& dice, bool kueue, bool groups)
      : server_(server), dice_(dice), kueue_(kueue), groups_(groups) {}

  void create_job();
  /// Somebody does something.
  void act();
  /// Nobody is in the way any more: hooks and quotas are gone, and so are foreign objects.
  void make_way();
  /// The webhooks and the quota of a namespace.
  [[nodiscard]] std::optional<Refusal> admit(const std::string& kind, Json& object);

 private:
  void change_job(const Object& job);
  void delete_job(const Object& job);
  void touch_child();
  void touch_pod();
  void make_foreign_pod();
  void administer();
  [[nodiscard]] api::GnnJob any_job(const std::string& name_space, const std::string& name);

  ApiServer& server_;
  Dice& dice_;
  const bool kueue_;
  const bool groups_;
  std::map<std::string, size_t> pod_quota_;  // by namespace
  std::set<std::string> refused_kinds_;
  bool changes_pods_ = false;
};

}  // namespace gnn::simulation
