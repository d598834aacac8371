#include "worker/tasks/registry.h"

#include "worker/tasks/graph_classification.h"
#include "worker/tasks/link_prediction.h"
#include "worker/tasks/node_classification.h"
#include "worker/tasks/node_inference.h"

#include <array>
#include <string>

namespace gnn::tasks {
namespace {

// One kind of work that a GNNJob can ask for.
struct Task {
  api::TaskType type;
  api::TaskMode mode = api::TaskMode::Training;
  // Checks what api::validate() can't know. No I/O.
  Parsed<std::unique_ptr<TaskRun>> (*parse)(const api::GnnJobSpec& spec);
};

constexpr std::array kTasks = {
    Task{
        .type = api::TaskType::NodeClassification,
        .parse = &parse_node_classification,
    },
    Task{
        .type = api::TaskType::NodeClassification,
        .mode = api::TaskMode::Inference,
        .parse = &parse_node_inference,
    },
    Task{
        .type = api::TaskType::GraphClassification,
        .parse = &parse_graph_classification,
    },
    Task{
        .type = api::TaskType::LinkPrediction,
        .parse = &parse_link_prediction,
    },
};

}  // namespace

Parsed<std::unique_ptr<TaskRun>> parse_task(const api::GnnJob& job) {
  std::vector<api::FieldError> errors = api::validate(job);
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  const api::TaskMode mode = job.spec.task.mode.value_or(api::TaskMode::Training);
  for (const Task& task : kTasks) {
    if (task.type == job.spec.task.type && task.mode == mode) return task.parse(job.spec);
  }
  return tl::unexpected(std::vector<api::FieldError>{
      {.path = "spec.task.type", .message = "expected a task that this worker has"}
  });
}

Error to_error(const std::vector<api::FieldError>& errors) {
  std::string message;
  for (const api::FieldError& error : errors) {
    if (!message.empty()) message += "; ";
    message += error.path + ": " + error.message;
  }
  return {.kind = ErrorKind::Configuration, .message = std::move(message)};
}

}  // namespace gnn::tasks
