// Start, restart, scaling and overhead of jobs, measured from outside on real agents and ranks:
//   gnn_distributed_bench GNN_WORKER [start|restart|scaling|load]
// Prints each figure with the bound that it must keep; ends with 1 when one doesn't.
#include "common/stopwatch.h"
#include "tests/support/read_file.h"

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <httplib.h>
#include <map>
#include <netinet/in.h>
#include <optional>
#include <sched.h>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using gnn::seconds_since;
using gnn::testing::read_file;
using Variables = std::map<std::string, std::string>;

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), length);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(fd);
  return ntohs(address.sin_port);
}

// The sum of a metric's series that hold `labels`; nullopt when there is none.
std::optional<double> sum_of(
    const std::string& page, const std::string& name, const std::string& labels = ""
) {
  std::optional<double> sum;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name + "{", 0) != 0 || line.find(labels) == std::string::npos) continue;
    sum = sum.value_or(0) + std::atof(line.c_str() + line.rfind(' '));
  }
  return sum;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    const std::string stat = read_file(entry.path() / "stat");
    const auto name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    char state = 0;
    int ppid = 0;
    if (std::sscanf(stat.c_str() + name_end + 1, " %c %d", &state, &ppid) == 2 && ppid == parent)
      children.push_back(pid);
  }
  return children;
}

// Of all its threads. Nanoseconds that they ran: /proc/PID/stat samples them 100 times a second.
double cpu_seconds(pid_t pid) {
  double nanoseconds = 0;
  for (const auto& thread : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task"))
    nanoseconds += std::atof(read_file(thread.path() / "schedstat").c_str());
  return nanoseconds / 1e9;
}

double resident_mebibytes(pid_t pid) {
  const std::string status = read_file("/proc/" + std::to_string(pid) + "/status");
  const auto at = status.find("VmRSS:");
  return at == std::string::npos ? 0 : std::atof(status.c_str() + at + 6) / 1024;
}

struct JobOptions {
  int nodes = 1;
  int processes = 1;
  std::string manifest{};
  // Node i and its ranks have core first_cpu + i alone, as pods that ask for one whole core each
  // have under the kubelet's static CPU policy.
  std::optional<int> first_cpu{};
};

// Agents as pods would run them, on this machine.
class Job {
 public:
  Job(const std::string& worker, const fs::path& folder, const JobOptions& options)
      : started_(Clock::now()) {
    const fs::path config = folder / "job.yaml";
    std::ofstream(config) << options.manifest;
    const int store_port = free_port();
    for (int node = 0; node < options.nodes; ++node) {
      ports_.push_back(free_port());
      agents_.push_back(start(worker, folder, options, node, store_port));
    }
  }
  ~Job() {
    for (const pid_t agent : agents_) ::kill(agent, SIGKILL);
    for (const pid_t agent : agents_) ::waitpid(agent, nullptr, 0);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  double age() const { return seconds_since(started_); }
  const std::vector<pid_t>& agents() const { return agents_; }
  std::vector<pid_t> ranks() const {
    std::vector<pid_t> all;
    for (const pid_t agent : agents_)
      for (const pid_t rank : children_of(agent)) all.push_back(rank);
    return all;
  }

  // The sum over all nodes.
  double metric(const std::string& name, const std::string& labels = "") const {
    double sum = 0;
    for (const int port : ports_) {
      httplib::Client client("127.0.0.1", port);
      client.set_connection_timeout(1);
      if (const auto page = client.Get("/metrics"))
        sum += sum_of(page->body, name, labels).value_or(0);
    }
    return sum;
  }

  // Waits for `condition`; ends the program when it doesn't come true in two minutes.
  void wait_for(const char* what, const std::function<bool()>& condition) const {
    const auto start_time = Clock::now();
    while (!condition()) {
      if (seconds_since(start_time) > 120) {
        std::fprintf(stderr, "gave up waiting for %s\n", what);
        std::exit(2);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  void wait_for_steps(double steps) const {
    wait_for("steps", [&] { return metric("gnn_train_steps_total") >= steps; });
  }

 private:
  pid_t start(
      const std::string& worker,
      const fs::path& folder,
      const JobOptions& options,
      int node,
      int store_port
  ) {
    const std::string log = (folder / ("node-" + std::to_string(node))).string();
    const Variables variables{
        {"GNN_CONTRACT", "1"},
        {"GNN_JOB", "bench"},
        {"GNN_JOB_UID", "bench"},
        {"GNN_ATTEMPT", "1"},
        {"GNN_ROUNDS_LEFT", "10"},
        {"GNN_NODE_RANK", std::to_string(node)},
        {"GNN_NNODES", std::to_string(options.nodes)},
        {"GNN_NPROC_PER_NODE", std::to_string(options.processes)},
        {"GNN_CONFIG", (folder / "job.yaml").string()},
        {"GNN_TERMINATION_LOG", log + ".result"},
        {"GNN_HTTP_ADDRESS", "127.0.0.1:" + std::to_string(ports_.back())},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(store_port)},
    };
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    if (options.first_cpu) {
      cpu_set_t cpus;
      CPU_ZERO(&cpus);
      CPU_SET(static_cast<size_t>(*options.first_cpu + node), &cpus);
      ::sched_setaffinity(0, sizeof cpus, &cpus);
    }
    const int file = ::open((log + ".log").c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execl(worker.c_str(), worker.c_str(), "agent", nullptr);
    std::_Exit(127);
  }

  Clock::time_point started_;
  std::vector<int> ports_;
  std::vector<pid_t> agents_;
};

// The model of DGL's "Multi-GPU node classification" on `dataset`.
std::string manifest_of(
    const std::string& dataset, int nodes, int processes, int batch_size, int epochs
) {
  std::ostringstream text;
  text << "apiVersion: gnn.dev/v1alpha1\nkind: GNNJob\nmetadata: {name: bench}\nspec:\n"
       << "  task: {type: NodeClassification}\n"
       << "  dataset: " << dataset << "\n"
       << "  model: {type: GraphSAGE, graphSage: {layers: 3, hiddenChannels: 256, dropout: "
          "\"0.5\"}}\n"
       << "  sampling: {fanout: [10, 10, 10]}\n"
       << "  training: {device: CPU, epochs: " << epochs << ", batchSize: " << batch_size
       << ", optimizer: {type: Adam, learningRate: \"0.01\"}, evaluation: {every: 0}}\n"
       << "  workers: {nodes: " << nodes << ", processesPerNode: " << processes << "}\n";
  return text.str();
}

// A graph of arxiv's shape; `scale` of its nodes.
std::string manifest(
    const std::string& scale, int nodes, int processes, int batch_size, int epochs
) {
  const std::string dataset =
      "{format: Synthetic, synthetic: {shape: Arxiv, scale: \"" + scale + "\", seed: 1}}";
  return manifest_of(dataset, nodes, processes, batch_size, epochs);
}

bool all_good = true;

void report(const char* what, double value, const char* unit, const char* relation, double bound) {
  const bool good = std::strcmp(relation, "<=") == 0 ? value <= bound : value >= bound;
  all_good = all_good && good;
  std::printf(
      "%-58s %9.3f %-8s %s %.2f  %s\n", what, value, unit, relation, bound, good ? "ok" : "MISSED"
  );
  std::fflush(stdout);
}

void measure_start_restart_and_overhead(const std::string& worker, const fs::path& folder) {
  const Job job(
      worker, folder, {.nodes = 1, .processes = 2, .manifest = manifest("0.01", 1, 2, 64, 100000)}
  );
  job.wait_for_steps(1);
  report("job start: agents started -> first step", job.age(), "s", "<=", 3);
  job.wait_for_steps(200);
  double largest = 0;
  for (const pid_t rank : job.ranks()) largest = std::max(largest, resident_mebibytes(rank));
  report("resident memory of a rank, small graph and batches", largest, "MiB", "<=", 200);

  const double before = cpu_seconds(job.agents()[0]);
  const auto start = Clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(10));
  const double share = (cpu_seconds(job.agents()[0]) - before) / seconds_since(start);
  report("agent's share of one CPU", share * 100, "%", "<=", 1);

  const pid_t victim = job.ranks().at(0);
  const double steps = job.metric("gnn_train_steps_total");
  const auto crash = Clock::now();
  ::kill(victim, SIGKILL);
  job.wait_for("the next round", [&] { return job.metric("gnn_agent_info", "round=\"1\"") > 0; });
  const double steps_then = std::max(steps, job.metric("gnn_train_steps_total"));
  job.wait_for_steps(steps_then + 1);
  report("rank killed -> first step of the next round", seconds_since(crash), "s", "<=", 5);
}

// A run by hand says on its output when the first step's checkpoint is written, the first sign of a
// step that is not another process's to hand on.
double seconds_to_first_checkpoint(const std::string& worker, const fs::path& folder) {
  const fs::path config = folder / "run.yaml";
  std::ofstream(config) << manifest("0.01", 1, 1, 64, 1) << "  checkpoint: {everySteps: 1, path: "
                        << (folder / "checkpoints").string() << ", resume: Never}\n";
  int lines[2];
  if (::pipe(lines) != 0) std::exit(2);
  const auto start = Clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(lines[1], STDOUT_FILENO);
    ::close(lines[0]);
    ::execl(worker.c_str(), worker.c_str(), "run", config.c_str(), "--log-format", "json", nullptr);
    std::_Exit(127);
  }
  ::close(lines[1]);
  std::string output;
  char buffer[4096];
  double seconds = 0;
  for (ssize_t size = 1; size > 0 && seconds == 0;) {
    size = ::read(lines[0], buffer, sizeof buffer);
    if (size > 0) output.append(buffer, static_cast<size_t>(size));
    if (output.find("\"event\":\"checkpoint\"") != std::string::npos)
      seconds = seconds_since(start);
  }
  ::close(lines[0]);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  if (seconds > 0) return seconds;
  std::fprintf(stderr, "no checkpoint: %s\n", output.c_str());
  std::exit(2);
}

void measure_process_start(const std::string& worker, const fs::path& folder) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) best = std::min(best, seconds_to_first_checkpoint(worker, folder));
  report("process start -> first step and its checkpoint, one rank", best, "s", "<=", 0.7);
  best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const Job job(
        worker, folder, {.nodes = 1, .processes = 1, .manifest = manifest("0.01", 1, 1, 64, 100000)}
    );
    job.wait_for_steps(1);
    best = std::min(best, job.age());
  }
  report("agent's start -> its rank's first step, small job", best, "s", "<=", 3);
}

constexpr double kScalingSeconds = 25;

// Of all `jobs` together, while they run side by side.
double samples_per_second(const std::vector<const Job*>& jobs) {
  for (const Job* job : jobs) job->wait_for_steps(8);
  const auto samples = [&jobs] {
    double sum = 0;
    for (const Job* job : jobs) sum += job->metric("gnn_train_samples_total");
    return sum;
  };
  const double before = samples();
  const auto start = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(kScalingSeconds));
  return (samples() - before) / seconds_since(start);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Beside one rank and two of one job, two jobs of a rank each that know nothing of each other: what
// two ranks could reach if their gradients' way cost nothing, since both cores share memory and its
// cache.
void measure_scaling(const std::string& worker, const fs::path& folder) {
  const auto options = [](int nodes, int first_cpu) {
    return JobOptions{
        .nodes = nodes,
        .processes = 1,
        .manifest = manifest("1", nodes, 1, 1024, 1000),
        .first_cpu = first_cpu
    };
  };
  std::vector<double> ones;
  std::vector<double> twos;
  std::vector<double> aparts;
  for (int round = 0; round < 3; ++round) {
    {
      const Job job(worker, folder, options(1, 0));
      ones.push_back(samples_per_second({&job}));
    }
    {
      const Job job(worker, folder, options(2, 0));
      twos.push_back(samples_per_second({&job}));
    }
    {
      fs::create_directories(folder / "other");
      const Job job(worker, folder, options(1, 0));
      const Job other(worker, folder / "other", options(1, 1));
      aparts.push_back(samples_per_second({&job, &other}));
    }
    std::printf(
        "round %d: %.0f seeds/s by one rank, %.0f by two, %.0f by two apart\n",
        round,
        ones.back(),
        twos.back(),
        aparts.back()
    );
  }
  std::printf(
      "%-58s %9.1f seeds/s\n", "1 rank on one core, arxiv's shape, batch 1024", median(ones)
  );
  std::printf("%-58s %9.1f seeds/s\n", "2 ranks on 2 cores, same batch for each", median(twos));
  std::printf("%-58s %9.3f x\n", "2 jobs of a rank each / 1 rank", median(aparts) / median(ones));
  std::printf("%-58s %9.3f x\n", "2 ranks / 2 jobs of a rank each", median(twos) / median(aparts));
  report("epoch speed of 2 ranks / 1 rank", median(twos) / median(ones), "x", ">=", 1.7);
}

// Runs gnn-worker to its end; ends the program if it fails.
void run_worker(const std::string& worker, std::vector<std::string> words) {
  words.insert(words.begin(), worker);
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    ::execv(worker.c_str(), pointers.data());
    std::_Exit(127);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return;
  std::fprintf(stderr, "%s failed\n", words[1].c_str());
  std::exit(2);
}

// What rank 0 says of each round's loading.
std::vector<double> loading_seconds(const fs::path& folder) {
  constexpr std::string_view kSaid = "Loaded the data set in ";
  const std::string log = read_file(folder / "node-0.log");
  std::vector<double> seconds;
  for (size_t at = log.find(kSaid); at != std::string::npos; at = log.find(kSaid, at + 1))
    seconds.push_back(std::atof(log.c_str() + at + kSaid.size()));
  return seconds;
}

// Of a node with `processes` ranks, from its start and after a rank was killed.
struct LoadingTimes {
  double start = 0;
  double restart = 0;
};
LoadingTimes measure_loading(
    const std::string& worker, const fs::path& folder, const std::string& dataset, int processes
) {
  const Job job(
      worker,
      folder,
      {.nodes = 1,
       .processes = processes,
       .manifest = manifest_of(dataset, 1, processes, 64, 100000)}
  );
  job.wait_for("the first loading", [&] { return !loading_seconds(folder).empty(); });
  job.wait_for_steps(1);
  ::kill(job.ranks().at(0), SIGKILL);
  job.wait_for("the second loading", [&] { return loading_seconds(folder).size() > 1; });
  const std::vector<double> seconds = loading_seconds(folder);
  return {.start = seconds[0], .restart = seconds[1]};
}

// A native data set of products' shape, 1.5 GB, which is in the page cache since it was made.
void measure_loads(const std::string& worker, const fs::path& folder) {
  const std::string path = (folder / "products.gnn").string();
  run_worker(worker, {"data", "generate", "--shape", "ogbn-products", "--output", path});
  const std::string dataset = "{format: Native, path: " + path + "}";
  LoadingTimes one{.start = 1e9, .restart = 1e9};
  LoadingTimes four = one;
  for (int round = 0; round < 3; ++round) {
    for (LoadingTimes* best : {&one, &four}) {
      const LoadingTimes times = measure_loading(worker, folder, dataset, best == &one ? 1 : 4);
      best->start = std::min(best->start, times.start);
      best->restart = std::min(best->restart, times.restart);
    }
  }
  std::printf("%-58s %9.3f s\n", "loading 1.5 GB, 1 rank", one.start);
  std::printf("%-58s %9.3f s\n", "loading 1.5 GB, 4 ranks of a node", four.start);
  report("loading by 4 ranks of a node / by 1 rank", four.start / one.start, "x", "<=", 1.2);
  report("loading after a restart in place, 4 ranks", four.restart, "s", "<=", 0.5);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 && count != 3) {
    std::fprintf(stderr, "usage: gnn_distributed_bench GNN_WORKER [start|restart|scaling|load]\n");
    return 64;
  }
  const std::string only = count == 3 ? arguments[2] : "";
  const auto wanted = [&only](const char* part) { return only.empty() || only == part; };
  const std::string worker = fs::absolute(arguments[1]).string();
  const fs::path folder = fs::temp_directory_path() / ("gnn-bench-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  if (wanted("start")) measure_process_start(worker, folder);
  if (wanted("restart")) measure_start_restart_and_overhead(worker, folder);
  if (wanted("scaling")) measure_scaling(worker, folder);
  if (wanted("load")) measure_loads(worker, folder);
  fs::remove_all(folder);
  return all_good ? 0 : 1;
}
