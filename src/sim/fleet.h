// Fleet: hosts on a Switch, each of which runs a program, and all that may happen to them: whoever
// crashes may be started anew. What is to survive faults, from joining to whole trainings, runs on it
// with real framing.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "sim/faults.h"
#include "sim/switch.h"

namespace starling {

class Fleet {
 public:
  // Is started once for every process. What it must know of an earlier one is not in its memory.
  using Program = std::function<Task<>(SimHost&)>;

  // One process, from its start to its end.
  struct Life {
    enum class End : std::uint8_t { none, done, failed, crashed };
    int host;
    int number;  // of those on its host
    Time from;
    Time until{0};
    End end = End::none;  // none: it still ran at the deadline
    std::exception_ptr error = {};
  };

  // Chance is that of the faults' seed.
  Fleet(int hosts, Faults faults, Weather weather = {});
  ~Fleet();

  // Starts the program on every host, and whenever one is started anew, and drives the world until
  // all have ended or the deadline is over. Returns all lives in the order in which they began. Once
  // only.
  std::vector<Life> run(Program program, Time deadline);

  const Faults& faults() const { return faults_; }
  SimLoop& loop() { return loop_; }
  Switch& hub() { return hub_; }

 private:
  struct Process {
    std::unique_ptr<Running> running;
    std::size_t life = 0;
    bool was_told_to_leave = false;
    bool starts_anew = false;  // as soon as it has ended
  };
  Process& process(int host) { return processes_[static_cast<std::size_t>(host)]; }
  Life& life(int host) { return lives_[process(host).life]; }
  bool is_over() const;

  void plan_faults();
  void start(int host);
  Task<> live(int host);
  Task<> fail_when_told(int host);
  void end(int host, Life::End how, std::exception_ptr error = {});
  void crash(int host);
  void restart(int host);
  Task<> until_over();

  Faults faults_;
  SimLoop loop_;
  Switch hub_;
  Program program_;
  Bell news_;
  std::vector<Life> lives_;
  int restarts_left_ = 0;
  std::vector<Process> processes_;  // the last: programs look at all others
};

}  // namespace starling
