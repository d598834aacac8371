#include "tests/worker/agent/running_job.h"

#include "tests/support/read_file.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace gnn::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// Mounts an empty file system of 700 KiB for this process and what it starts; says whether it may.
bool mount_small_disk(const std::string& path, unsigned long flags = 0) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", path.c_str(), "tmpfs", flags, "size=700k") == 0;
}

// As the variables of RunningJobTest::spawn() say.
bool mount_what_is_wanted(const Variables& variables) {
  const auto small = variables.find("TEST_SMALL_DISK");
  if (small != variables.end()) return mount_small_disk(small->second);
  const auto read_only = variables.find("TEST_READ_ONLY_DISK");
  return read_only == variables.end() || mount_small_disk(read_only->second, MS_RDONLY);
}

}  // namespace

// Read from every process's parent, since not every kernel lists children.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    const std::string stat = pid > 0 ? read_file(entry.path() / "stat") : "";
    const auto name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    char state = 0;
    int its_parent = 0;
    if (std::sscanf(stat.c_str() + name_end + 1, " %c %d", &state, &its_parent) == 2 &&
        its_parent == parent)
      children.push_back(pid);
  }
  std::sort(children.begin(), children.end());
  // Numbers rise, and begin again at a low one after the largest.
  const pid_t half = std::atoi(read_file("/proc/sys/kernel/pid_max").c_str()) / 2;
  if (!children.empty() && children.back() - children.front() > half)
    std::stable_partition(children.begin(), children.end(), [half](pid_t pid) {
      return pid > half;
    });
  return children;
}

bool may_mount(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) std::_Exit(mount_small_disk(path) ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

RunningJobTest::RunningJobTest()
    : folder_(fs::path(::testing::TempDir()) / ("faults-" + std::to_string(::getpid()))) {
  // Orphans become children of this process, where they can be counted.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  fresh_folder();
}

RunningJobTest::~RunningJobTest() {
  if (job_ > 0) {
    ::kill(job_, SIGKILL);
    ::waitpid(job_, nullptr, 0);
  }
  fs::remove_all(folder_);
}

void RunningJobTest::fresh_folder() {
  fs::remove_all(folder_);
  fs::create_directories(folder_);
}

pid_t RunningJobTest::spawn(
    const std::vector<std::string>& arguments, const Variables& variables, const fs::path& output
) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setpgid(0, 0);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  if (!mount_what_is_wanted(variables)) std::_Exit(126);
  const int file = ::open(output.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  std::vector<char*> pointers;
  for (const auto& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  std::_Exit(127);
}

void RunningJobTest::start_program(const std::vector<std::string>& arguments, Variables variables) {
  variables.try_emplace("GNN_TERMINATION_LOG", (folder_ / "result").string());
  job_ = spawn(arguments, variables, folder_ / "output");
}

int RunningJobTest::finish(seconds limit) {
  const auto deadline = steady_clock::now() + limit;
  int status = 0;
  while (::waitpid(job_, &status, WNOHANG) == 0) {
    if (steady_clock::now() > deadline) return -1;
    std::this_thread::sleep_for(milliseconds(10));
  }
  job_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool RunningJobTest::wait_until(const std::function<bool()>& condition) {
  const auto deadline = steady_clock::now() + seconds(120);
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

std::string RunningJobTest::output() const {
  return read_file(folder_ / "output");
}

std::string RunningJobTest::result_of(int node) const {
  return read_file(folder_ / ("result." + std::to_string(node)));
}

void RunningJobTest::expect_no_orphan() {
  EXPECT_TRUE(wait_until([] {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return children_of(::getpid()).empty();
  })) << "processes outlived their job";
}

}  // namespace gnn::testing
