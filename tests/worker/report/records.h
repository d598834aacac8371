#pragma once

#include "worker/report/run_record.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gnn::report::testing {

/// An epoch whose loss tells it from others.
inline progress::EpochReport epoch_report(int64_t epoch) {
  progress::EpochReport report;
  report.epoch = epoch;
  report.epochs = 100;
  report.steps = 45;
  report.average_loss = 2.0 / static_cast<double>(epoch + 1);
  report.train = {.metric = "accuracy", .value = 0.5, .count = 90941};
  report.validation = progress::Measure{.metric = "accuracy", .value = 0.625, .count = 29799};
  report.seconds = 1.25;
  return report;
}

inline RankRecord rank_record(double wait) {
  return {
      .seconds =
          {.wait = wait,
           .forward = 0.25,
           .backward = 0.5,
           .reduce = 0.125,
           .optimizer = 0.0625,
           .total = wait + 1},
      .items = 1024,
      .sampled_edges = 200000,
      .rows = progress::RowOrigins{.local = 100, .cache = 30, .remote = 10},
      .expected_hit_rate = 0.75,
  };
}

inline AttemptRecord attempt_of(const std::string& uid, int64_t attempt) {
  return {
      .incarnation = {.job_uid = uid, .attempt = attempt, .round = 0},
      .world_size = 2,
      .device = "cpu",
      .began = TimePoint(std::chrono::seconds(1'790'000'000 + attempt)),
      .seen = TimePoint(std::chrono::seconds(1'790'000'009 + attempt)),
  };
}

/// A run that has ended, with everything that a record can hold.
inline RunRecord full_record(int64_t epochs, size_t ranks = 2) {
  RunRecord record = begin_attempt(
      std::nullopt,
      {.job = "arxiv",
       .task = "NodeClassification",
       .model = "GraphSAGE",
       .dataset = "ogbn-arxiv",
       .evaluation = "accuracy",
       .epochs = epochs,
       .batch_size = 1024},
      attempt_of("6f0c", 1),
      {}
  );
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    EpochRecord one = epoch_record_of(epoch_report(epoch));
    one.train_set = progress::Measure{.metric = "accuracy", .value = 0.75, .count = 4};
    one.test = progress::Measure{.metric = "accuracy", .value = 0.5, .count = 2};
    one.learning_rate = 0.01;
    add_epoch(record, one, std::vector<RankRecord>(ranks, rank_record(0.5)));
  }
  record.attempts.back().end = AttemptEnd::Complete;
  record.confusion = confusion_of({.classes = 2, .counts = {5, 1, 2, 4}});
  record.data = DataRecord{.description = "ogbn-arxiv: 4 nodes", .degrees = {}, .labels = {}};
  DegreeRecord degrees{.edge_type = "(node, to, node)", .nodes = 4, .looked = 4, .most = 9};
  for (const int64_t degree : {0, 1, 3, 9}) degrees.histogram.add(degree);
  record.data->degrees.push_back(degrees);
  record.data->labels = label_record_of({3, 1});
  record.data->labels->of = "node";
  record.outcome = Outcome{
      .metrics = {{"test_accuracy", 0.6958}},
      .test_model = "best",
      .best_epoch = 3,
      .checkpoint = "/ckpt/a000001-r0000/step-000000000110.manifest",
      .parameters_hash = "9ae16a3b2f90404f",
  };
  return record;
}

}  // namespace gnn::report::testing
