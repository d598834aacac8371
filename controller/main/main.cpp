#include "common/log.h"
#include "controller/app/operator.h"
#include "controller/app/options.h"
#include "controller/app/release_command.h"
#include "controller/app/validate_command.h"
#include "controller/app/version.h"
#include "controller/app/wait_command.h"

#include <cstdio>
#include <iostream>
#include <malloc.h>
#include <signal.h>

namespace {

// Before any thread is created: all inherit the mask, and only sigwaitinfo() gets the signals.
void wait_for_signals_later() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  // Few arenas: most threads only wait, and an arena never shrinks.
  ::mallopt(M_ARENA_MAX, 2);
  // Pages of lists and large objects are not to leave holes in an arena: without this, glibc raises
  // the size from which a block goes back to the system at once to the largest that it has seen.
  ::mallopt(M_MMAP_THRESHOLD, 256 << 10);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 20);
  ::signal(SIGPIPE, SIG_IGN);

  const gnn::app::ParsedOptions parsed = gnn::app::parse_options(argc, argv);
  if (parsed.finished) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  if (parsed.options.command == gnn::app::Command::Run ||
      parsed.options.command == gnn::app::Command::Release) {
    wait_for_signals_later();
  }
  gnn::init_logging(parsed.options.log);
  switch (parsed.options.command) {
    case gnn::app::Command::Run:
      return gnn::app::run_operator(parsed.options);
    case gnn::app::Command::Release:
      return gnn::app::run_release(parsed.options);
    case gnn::app::Command::Wait:
      return gnn::app::run_wait(parsed.options);
    case gnn::app::Command::Validate:
      return gnn::app::run_validate(parsed.options, std::cin, std::cout);
    case gnn::app::Command::Version:
      std::printf("gnn-controller %s\n", gnn::app::kProgramVersion);
      return 0;
  }
  return 0;
}
