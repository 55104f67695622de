#include "launch/guardian.h"

#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "launch/pipe.h"

namespace starling {

namespace {

[[noreturn]] void watch(int pipe) {
  ::setsid();  // so that a Ctrl-C in the terminal does not reach it
  for (int signal : kStopSignals) ::signal(signal, SIG_IGN);
  // It must not keep the launcher's output open: whoever reads that waits for its end.
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
  std::vector<pid_t> groups;
  pid_t group = 0;
  while (::read(pipe, &group, sizeof group) == sizeof group) {
    if (group == 0) ::_exit(0);
    if (group > 0) groups.push_back(group);
    if (group < 0) std::erase(groups, -group);
  }
  for (pid_t each : groups) ::kill(-each, SIGKILL);
  ::_exit(0);
}

}  // namespace

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

Guardian::Guardian() {
  const Pipe pipe = make_pipe();
  pid_ = ::fork();
  if (pid_ < 0) throw Error(fmt::format("cannot start a process: {}", ::strerror(errno)));
  if (pid_ == 0) {
    ::close(pipe.write_end);
    watch(pipe.read_end);
  }
  ::close(pipe.read_end);
  tell_ = pipe.write_end;
}

Guardian::~Guardian() {
  tell(0);
  ::close(tell_);
  ::waitpid(pid_, nullptr, 0);
}

void Guardian::tell(pid_t group) {
  [[maybe_unused]] const auto written = ::write(tell_, &group, sizeof group);
}

}  // namespace starling
