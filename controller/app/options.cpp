#include "controller/app/options.h"

#include "common/host_port.h"
#include "controller/objects/json.h"
#include "controller/objects/network_policy.h"

#include <CLI/CLI.hpp>

#include <map>

namespace gnn::app {
namespace {

// An option in seconds, with fractions. `into` must outlive the parsing.
void add_seconds(CLI::App& app, const std::string& name, Duration& into, const std::string& help) {
  app.add_option_function<double>(
         name,
         [&into](double seconds) {
           into = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
         },
         help + " (seconds, default " +
             std::to_string(std::chrono::duration_cast<std::chrono::seconds>(into).count()) + ")"
  )
      ->check(CLI::Range(0.05, 86400.0));
}

void add_connection(CLI::App& app, Options& options) {
  app.add_option(
         "--kubeconfig",
         options.kubeconfig,
         "kubeconfig file (default: the pod's service account, else $KUBECONFIG, else "
         "~/.kube/config)"
  )
      ->envname(kEnvKubeconfig);
  app.add_option("--context", options.context, "kubeconfig context (default: the current one)");
  app.add_option("--namespace", options.namespaces, "namespace to watch; repeatable (default: all)")
      ->envname(kEnvNamespace);
  app.add_option("--log-format", options.log.format, "log format: json or console")
      ->transform(CLI::CheckedTransformer(std::map<std::string, LogFormat>{
          {"json", LogFormat::Json}, {"console", LogFormat::Console}
      }));
  app.add_option(
         "--log-level", options.log.level, "lowest level to log: debug, info, warning or error"
  )
      ->transform(CLI::CheckedTransformer(std::map<std::string, LogLevel>{
          {"debug", LogLevel::Debug},
          {"info", LogLevel::Info},
          {"warning", LogLevel::Warning},
          {"error", LogLevel::Error}
      }));
}

std::map<std::string, objects::GroupApi> gang_providers() {
  std::map<std::string, objects::GroupApi> providers;
  for (const objects::GroupApi api : objects::kGroupApis) {
    providers.emplace(objects::to_string(api), api);
  }
  return providers;
}

void add_run(CLI::App& app, Options& options) {
  app.add_option("--workers", options.workers, "number of jobs reconciled in parallel")
      ->check(CLI::Range(1, 64));
  app.add_option(
         "--cache-memory",
         options.cache_memory_mib,
         "MiB of memory for cached objects; one namespace gets at most three quarters of it"
  )
      ->check(CLI::Range(1, 1 << 20));
  app.add_option(
         "--progress",
         options.progress,
         "how to read a job's progress: pod-ip (ask node 0's agent) or off"
  )
      ->transform(CLI::CheckedTransformer(std::map<std::string, ProgressMode>{
          {"pod-ip", ProgressMode::PodIp}, {"off", ProgressMode::Off}
      }));
  add_seconds(
      app,
      "--progress-interval",
      options.progress_interval,
      "how often a running job's progress is read; less often from a namespace with many jobs"
  );
  app.add_option(
      "--job-network-policy",
      options.job_network_policy,
      "create a NetworkPolicy for each job: true or false"
  );
  app.add_option_function<std::string>(
         "--job-fence",
         [&options](const std::string& json) { options.job_fence = *parse_job_fence(json); },
         R"(what each job's NetworkPolicy admits, as JSON: {"metricsFrom": [peer...], "egress": [rule...]})"
  )
      ->check([](const std::string& json) {
        const auto fence = parse_job_fence(json);
        return fence ? std::string() : fence.error().message;
      });
  app.add_option(
         "--gang-provider",
         options.gang_providers,
         "a provider of gang scheduling that may be used: Native, Coscheduling or Volcano; "
         "repeatable "
         "(default: none)"
  )
      ->transform(CLI::CheckedTransformer(gang_providers()));
  app.add_option(
      "--coscheduling-scheduler",
      options.coscheduling_schedulers,
      "scheduler whose pods Coscheduling groups with scheduling.provider Auto; repeatable"
  );
  app.add_option(
      "--volcano-scheduler",
      options.volcano_schedulers,
      "scheduler whose pods Volcano groups with scheduling.provider Auto; repeatable (default: "
      "volcano)"
  );
  app.add_option_function<std::string>(
         "--volcano-queues",
         [&options](const std::string& json) {
           options.volcano_queues = *parse_volcano_queues(json);
         },
         R"(the queues that jobs may name in scheduling.volcano.queue, as JSON: {"NAMESPACE": ["QUEUE"...]}; )"
         "* is any namespace or any queue (default: any)"
  )
      ->check([](const std::string& json) {
        const auto queues = parse_volcano_queues(json);
        return queues ? std::string() : queues.error().message;
      });
  app.add_flag(
      "--kueue", options.kueue, "have jobs wait for Kueue that name a queue of it by their label"
  );
  app.add_flag(
      "--kueue-manage-jobs-without-queue-name",
      options.kueue_manage_jobs_without_queue_name,
      "with --kueue: have jobs that name no queue wait in the queue default"
  );
  app.add_option_function<std::string>(
         "--job-allowed-keys",
         [&options](const std::string& list) {
           options.job_allowed_keys = *api::AllowedKeys::parse(list);
         },
         "keys of labels and annotations that jobs may put on their pods, with commas between; "
         "PREFIX/* allows all of "
         "a prefix (default: " +
             std::string(api::kDefaultAllowedKeys) + ")"
  )
      ->check([](const std::string& list) {
        const auto keys = api::AllowedKeys::parse(list);
        return keys ? std::string() : keys.error().message;
      });
  app.add_flag_callback(
      "--job-user-from-cluster",
      [&options] { options.job_pod_user = reconcile::PodUser::OfCluster; },
      "leave user and groups of pods to the cluster where their job names none, instead of "
      "setting " +
          std::to_string(api::kDefaultPodUser)
  );
  app.add_option("--bind-address", options.bind_address, "HOST:PORT to serve /metrics on");
  app.add_option(
      "--health-bind-address",
      options.health_bind_address,
      "HOST:PORT to serve /healthz and /readyz on, not that of /metrics"
  );
  app.add_flag("--leader-elect", options.leader_elect, "reconcile only while holding the Lease");
  app.add_option(
      "--lease-namespace",
      options.lease_namespace,
      "namespace of the Lease (default: that of the credentials)"
  );
  app.add_option("--lease-name", options.lease_name, "name of the Lease");
  app.add_option(
         "--identity", options.identity, "holder identity in the Lease (default: the host's name)"
  )
      ->envname(kEnvIdentity);
  add_seconds(
      app,
      "--lease-duration",
      options.lease_duration,
      "how long a non-leader waits before taking the Lease"
  );
  add_seconds(
      app,
      "--renew-deadline",
      options.renew_deadline,
      "how long a leader tries to renew the Lease before it exits"
  );
  add_seconds(
      app,
      "--retry-period",
      options.retry_period,
      "pause between attempts to take or renew the Lease"
  );
  add_seconds(
      app,
      "--watch-idle-timeout",
      options.watch_idle_timeout,
      "reconnect a watch after this much silence"
  );
}

std::string check_together(const Options& options) {
  if (options.command == Command::Wait && options.namespaces.size() != 1) {
    return "wait: expected exactly one --namespace, that of the job";
  }
  if (options.renew_deadline >= options.lease_duration ||
      options.retry_period >= options.renew_deadline) {
    return "--retry-period must be less than --renew-deadline, and that less than --lease-duration";
  }
  if (auto address = parse_host_port(options.bind_address); !address) {
    return "--bind-address: " + address.error().message;
  }
  if (auto address = parse_host_port(options.health_bind_address); !address) {
    return "--health-bind-address: " + address.error().message;
  }
  return {};
}

}  // namespace

ParsedOptions parse_options(int argc, const char* const* argv) {
  ParsedOptions parsed;
  Options& options = parsed.options;
  CLI::App app("Controller for GNNJobs (gnn.dev/v1alpha1).", "gnn-controller");
  app.set_config("--config", "", "TOML file with options of this command line");
  app.require_subcommand(0, 1);
  app.fallthrough();
  add_connection(app, options);
  add_run(app, options);
  CLI::App* run = app.add_subcommand("run", "reconcile GNNJobs until SIGTERM (the default)");
  CLI::App* release = app.add_subcommand(
      "release",
      "remove the finalizer from every worker pod, before an uninstall; with --leader-elect, take "
      "the Lease first so that no controller creates pods meanwhile"
  );
  release->add_flag(
      "--only-workloads",
      options.release_only_workloads,
      "delete the Workloads of GNNJobs instead, once the operator does not use Kueue any more: "
      "jobs "
      "that run go on, and their quota is given back"
  );
  CLI::App* wait = app.add_subcommand(
      "wait",
      "wait until a GNNJob has finished; exits with 0 (Complete), 1 (Failed), 2 (deleted) or 124 "
      "(timeout)"
  );
  wait->add_option("job", options.wait_job, "name of the GNNJob in --namespace")->required();
  add_seconds(*wait, "--timeout", options.wait_timeout, "how long to wait");
  CLI::App* validate = app.add_subcommand(
      "validate",
      "judge GNNJobs in files as the controller would, without a cluster; exits with 0 (all are "
      "valid), 1 "
      "(a document is not) or 66 (a path cannot be read, or there is no GNNJob)"
  );
  validate
      ->add_option(
          "-f,--filename",
          options.manifests,
          "file or folder with manifests, or - for standard input; repeatable"
      )
      ->required();
  validate->add_flag(
      "-R,--recursive", options.recursive, "take folders with all that is below them"
  );
  CLI::App* version = app.add_subcommand("version", "print the version");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream problems;
    parsed.exit_code = app.exit(error, out, problems) == 0 ? 0 : 64;
    parsed.finished = true;
    parsed.text = out.str() + problems.str();
    return parsed;
  }
  static_cast<void>(run);
  if (release->parsed()) options.command = Command::Release;
  if (wait->parsed()) options.command = Command::Wait;
  if (validate->parsed()) options.command = Command::Validate;
  if (version->parsed()) options.command = Command::Version;
  if (std::string problem = check_together(options); !problem.empty()) {
    parsed.finished = true;
    parsed.exit_code = 64;
    parsed.text = problem + "\n";
  }
  return parsed;
}

Result<reconcile::VolcanoQueues> parse_volcano_queues(const std::string& json) {
  GNN_ASSIGN_OR_RETURN(const objects::Json value, objects::parse_json(json));
  if (!value.is_object()) return fail(ErrorKind::Configuration, "expected a JSON object");
  reconcile::VolcanoQueues queues;
  objects::ObjectReader reader(value, "");
  for (const auto& [name_space, unused] : value.items()) {
    reader.read(name_space, queues[name_space]);
  }
  return reader.finish(std::move(queues));
}

Result<reconcile::JobFence> parse_job_fence(const std::string& json) {
  GNN_ASSIGN_OR_RETURN(const objects::Json value, objects::parse_json(json));
  reconcile::JobFence fence;
  objects::ObjectReader reader(value, "");
  for (const auto& [name, unused] : value.items()) {
    if (name != "metricsFrom" && name != "egress")
      return fail(ErrorKind::Configuration, name + ": expected metricsFrom or egress");
  }
  reader.read_list("metricsFrom", fence.metrics_from, objects::decode_peer_strictly);
  if (value.contains("egress")) {
    fence.egress.emplace();
    reader.read_list("egress", *fence.egress, objects::decode_egress_strictly);
  }
  return reader.finish(std::move(fence));
}

}  // namespace gnn::app
