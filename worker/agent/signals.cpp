#include "worker/agent/signals.h"

#include <sys/signalfd.h>

namespace gnn::agent {

SignalEvents::SignalEvents(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

std::vector<int> SignalEvents::take() {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    signals.push_back(static_cast<int>(info.ssi_signo));
  return signals;
}

void restore_signals() {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD, SIGPIPE, SIGHUP}) ::signal(signal, SIG_DFL);
}

}  // namespace gnn::agent
