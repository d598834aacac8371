// Keeps a pod's namespaces: sleeps, reaps what is orphaned to it, and leaves on SIGTERM.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int signal_number) {
  (void)signal_number;
  _exit(0);
}

static void reap(int signal_number) {
  (void)signal_number;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

int main(void) {
  signal(SIGINT, leave);
  signal(SIGTERM, leave);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
