// How much better a sample's model tells test links from drawn pairs than the number of links of the
// two ends does. Runs the sample once for each seed, which seeds the split, too. Prints the AUC of both on
// the same links and pairs, and their difference in standard errors; fails if that is too small.
#include "common/progress_bar.h"
#include "tests/support/must.h"
#include "tests/worker/app/spread.h"
#include "worker/app/job_file.h"
#include "worker/app/run_rank.h"
#include "worker/graph/load.h"
#include "worker/progress/console_sink.h"
#include "worker/tasks/link_graph.h"
#include "worker/training/measures.h"

#include <ATen/ATen.h>
#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace gnn {
namespace {

using testing::must;

struct Arguments {
  std::string manifest;
  std::vector<std::string> fields;
  int64_t seeds = 5;
  double least_margin = 3;  // in standard errors
};

graph::Dataset load(const api::GnnJobSpec& spec) {
  graph::LoadOptions options;
  options.training_seed = spec.training.seed;
  options.add_reverse = spec.dataset.add_reverse;
  const api::EdgeType& link = spec.task.link.value();
  options.link = {link.source, link.relation, link.destination};
  SilentProgressBar silent;
  return must(graph::load_dataset(spec.dataset, options, silent));
}

// Scores a pair by the product of its ends' numbers of training links.
class DegreeProduct {
 public:
  DegreeProduct(const tasks::Links& links, const at::Tensor& train) {
    const at::Tensor pairs = links.pairs.index_select(0, train);
    sources_ = at::bincount(pairs.select(1, 0), {}, links.num_sources);
    destinations_ = at::bincount(pairs.select(1, 1), {}, links.num_destinations);
  }
  // Exact: float counts up to 2^24.
  // Shapes: pairs [N, 2].
  [[nodiscard]] std::vector<float> operator()(const at::Tensor& pairs) const {
    const at::Tensor products = sources_.index_select(0, pairs.select(1, 0)) *
                                destinations_.index_select(0, pairs.select(1, 1));
    const at::Tensor scores = products.to(at::kFloat).contiguous();
    return {scores.const_data_ptr<float>(), scores.const_data_ptr<float>() + scores.numel()};
  }

 private:
  at::Tensor sources_;
  at::Tensor destinations_;
};

double auc_of_degrees(const api::GnnJobSpec& spec) {
  const graph::Dataset dataset = load(spec);
  const tasks::Links links = tasks::links_of(dataset);
  const tasks::LinkSplit split = must(tasks::split_links_of(dataset, spec));
  const DegreeProduct score(links, split.train_links);
  return training::auc(score(links.pairs.index_select(0, split.test)), score(split.test_negatives));
}

double auc_of_model(const api::GnnJob& job) {
  const StopToken stop;
  rendezvous::Rendezvous alone;
  alone.job = job.metadata.name;
  progress::NullSink sink;
  const tasks::TaskResult result = must(
      app::run_rank(job, {.rendezvous = alone, .progress = sink, .stop = stop, .activity = nullptr})
  );
  return result.report.metrics.at("test_auc");
}

bool measure(const Arguments& arguments) {
  std::vector<double> model;
  std::vector<double> degrees;
  for (int64_t seed = 0; seed < arguments.seeds; ++seed) {
    std::vector<std::string> fields = arguments.fields;
    fields.push_back("training.seed=" + std::to_string(seed));
    fields.push_back("dataset.split.seed=" + std::to_string(seed));
    const api::GnnJob job = must(app::load_job(arguments.manifest, fields));
    degrees.push_back(auc_of_degrees(job.spec));
    model.push_back(auc_of_model(job));
    std::printf(
        "seed %ld: model %.4f, degrees %.4f\n",
        static_cast<long>(seed),
        model.back(),
        degrees.back()
    );
    std::fflush(stdout);
  }
  const app::Spread of_model = app::spread_of(model);
  const app::Spread of_degrees = app::spread_of(degrees);
  const double difference = of_model.mean - of_degrees.mean;
  const double margin = difference / app::error_of_difference(of_model, of_degrees);
  std::printf(
      "mean: model %.4f (standard error %.4f), degrees %.4f (%.4f); difference %.4f, %.1f standard "
      "errors (wanted more than %g)\n",
      of_model.mean,
      std::sqrt(of_model.variance_of_mean),
      of_degrees.mean,
      std::sqrt(of_degrees.variance_of_mean),
      difference,
      margin,
      arguments.least_margin
  );
  return margin > arguments.least_margin;
}

}  // namespace
}  // namespace gnn

int main(int argc, char** argv) {
  gnn::Arguments arguments;
  CLI::App app("A sample's test AUC against that of the product of degrees");
  app.add_option("manifest", arguments.manifest)->required()->check(CLI::ExistingFile);
  app.add_option("--set", arguments.fields, "path=value, as for gnn-worker run");
  app.add_option("--seeds", arguments.seeds)->check(CLI::Range(2, 100));
  app.add_option("--least-margin", arguments.least_margin, "standard errors of the difference");
  CLI11_PARSE(app, argc, argv);
  try {
    return gnn::measure(arguments) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
