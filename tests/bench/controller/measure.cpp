#include "tests/bench/controller/measure.h"

#include "common/contract.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace gnn::app {

using namespace std::chrono_literals;
using objects::Json;

void wait_until(const std::function<bool()>& done, std::chrono::seconds timeout, const char* what) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(std::string("timed out: ") + what);
    }
    std::this_thread::sleep_for(5ms);
  }
}

void say(const std::string& stage) {
  std::fprintf(stderr, "%s\n", stage.c_str());
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto at = static_cast<size_t>(p * static_cast<double>(values.size() - 1) + 0.5);
  return values[at];
}

std::string job_name(const std::string& prefix, int number) {
  return prefix + std::to_string(number);
}

Json job_json(const std::string& name_space, const std::string& name, int nodes) {
  return {
      {"apiVersion", contract::kApiGroupVersion},
      {"kind", contract::kKind},
      {"metadata", {{"name", name}, {"namespace", name_space}}},
      {"spec",
       {{"task", {{"type", "NodeClassification"}}},
        {"dataset", {{"format", "Synthetic"}, {"synthetic", {{"shape", "Arxiv"}}}}},
        {"model", {{"type", "GraphSAGE"}, {"graphSage", {{"layers", 2}}}}},
        {"sampling", {{"fanout", {10, 10}}}},
        {"workers", {{"nodes", nodes}, {"template", {{"image", "localhost/none:1"}}}}}}},
  };
}

ProcessUse use_of(pid_t pid) {
  ProcessUse use;
  const std::string folder = "/proc/" + std::to_string(pid);
  std::ifstream status(folder + "/status");
  for (std::string line; std::getline(status, line);) {
    const auto kib_of = [&](const std::string& name, double& mib) {
      if (line.starts_with(name)) mib = std::stod(line.substr(name.size())) / 1024;
    };
    kib_of("VmRSS:", use.resident_mib);
    kib_of("VmHWM:", use.peak_resident_mib);
  }
  std::ifstream stat(folder + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return use;
  std::istringstream fields(text.substr(name_end + 2));
  std::string field;
  double ticks = 0;
  for (int i = 0; i < 13 && fields >> field; ++i) {
    if (i >= 11) ticks += std::stod(field);
  }
  use.cpu_seconds = ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return use;
}

std::map<std::string, double> calls_in(const std::string& metrics) {
  static const std::regex line(
      "rest_client_requests_total\\{[^}]*method=\"([A-Z]+)\"[^}]*\\} ([0-9.e+]+)"
  );
  std::map<std::string, double> calls;
  for (std::sregex_iterator at(metrics.begin(), metrics.end(), line), end; at != end; ++at) {
    calls[(*at)[1]] += std::stod((*at)[2]);
  }
  return calls;
}

}  // namespace gnn::app
