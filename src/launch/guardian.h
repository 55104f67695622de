// The guardian: a process that ends a launcher's workers if the launcher itself dies, however suddenly.
//
// The guardian learns of each worker's process group through a pipe, when it begins and, as a
// negative number, when it has been killed: from then on its number may be somebody else's. When the
// launcher is gone without having said goodbye (a zero), the guardian kills those that are left.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <array>

namespace starling {

// What a launcher stops on, unless whoever started it wants it ignored, as nohup does.
inline constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};
bool is_ignored(int signal);

class Guardian {
 public:
  Guardian();
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void begins(pid_t group) { tell(group); }
  void ended(pid_t group) { tell(-group); }

 private:
  void tell(pid_t group);

  pid_t pid_;
  int tell_;
};

}  // namespace starling
