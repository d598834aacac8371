#pragma once

#include "worker/agent/agent_options.h"
#include "worker/agent/job_numbers.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <set>
#include <string>

namespace gnn::agent::testing {

/// Node 1 of a job in its third attempt.
inline AgentOptions options() {
  AgentOptions result;
  result.job = "arxiv";
  result.job_uid = "6f0c";
  result.attempt = 2;
  result.node = 1;
  return result;
}

/// One of each number, among them those that JSON does not have.
inline JobNumbers all_numbers() {
  JobNumbers numbers;
  numbers.epoch = 5;
  numbers.epochs = 9;
  numbers.global_step = 110;
  numbers.steps_per_epoch = 22;
  numbers.step = 3;
  numbers.loss = 1.0731;
  numbers.metric = "auc";
  numbers.train_metric = 1e-12;
  numbers.validation_metric = std::nan("");
  numbers.test_metric = -std::numeric_limits<double>::infinity();
  numbers.test_model = "best";
  numbers.best = progress::BestEpoch{
      .epoch = 3, .value = 0.75, .checkpoint = "/ckpt/a000001-r0000/step-000000000088.manifest"
  };
  numbers.eta_seconds = 60;
  numbers.checkpoint = "/ckpt/a000001-r0000/step-000000000110.manifest";
  numbers.parameters_hash = "9ae16a3b2f90404f";
  numbers.remote =
      progress::RemoteSummary{.bytes_per_step = 1.5e9, .hit_rate = 0.875, .expected_hit_rate = 0.9};
  return numbers;
}

/// The keys of JSON objects together.
class Keys {
 public:
  void add(const std::string& text) {
    const auto document = nlohmann::json::parse(text);
    for (const auto& [key, value] : document.items()) keys_.insert(key);
  }
  [[nodiscard]] const std::set<std::string>& seen() const { return keys_; }

 private:
  std::set<std::string> keys_;
};

}  // namespace gnn::agent::testing
