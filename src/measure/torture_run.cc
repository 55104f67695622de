#include "measure/torture_run.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"

namespace starling {

std::vector<Trial> trials_of(const TortureRun& run) {
  std::vector<const Scenario*> chosen;
  for (const std::string& name : run.scenarios) chosen.push_back(&find_scenario(name));
  if (chosen.empty()) {
    for (const Scenario& each : scenarios()) chosen.push_back(&each);
  }
  std::vector<System> systems;
  for (const std::string& name : run.systems) systems.push_back(find_system(name));
  if (systems.empty()) systems = named_systems();
  std::vector<Trial> trials;
  for (const Scenario* scenario : chosen) {
    for (const System& system : systems) {
      if (scenario->takes(system)) {
        trials.push_back({scenario, system});
      } else if (!run.systems.empty()) {
        throw Error(
            fmt::format("the scenario {} cannot have the system {}", scenario->name, system.name),
            "leave it out");
      }
    }
  }
  return trials;
}

std::string replay_command(const TortureFailure& failure) {
  return fmt::format("starling torture --scenarios {} --systems {} --first {} --seeds 1 --verbose",
                     failure.scenario, failure.system, failure.seed);
}

namespace {

// What a process leaves where the other can see it, even if it ends in the middle of a seed.
struct Slot {
  std::atomic<std::uint64_t> at;    // the seed that it is at
  std::atomic<std::uint64_t> done;  // how many it has done
};

nlohmann::json to_json(const TortureFailure& failure) {
  return {{"scenario", failure.scenario},
          {"system", failure.system},
          {"seed", failure.seed},
          {"story", failure.story},
          {"wrongs", failure.wrongs}};
}

TortureFailure from_json(const nlohmann::json& line) {
  return {line.at("scenario"), line.at("system"), line.at("seed"), line.at("story"),
          line.at("wrongs")};
}

class Torturer {
 public:
  Torturer(const TortureRun& run, const std::function<void(std::uint64_t)>& on_progress,
           const std::function<void(const TortureFailure&)>& on_failure)
      : run_(run), trials_(trials_of(run)), on_progress_(on_progress), on_failure_(on_failure) {
    void* shared = mmap(nullptr, sizeof(Slot) * jobs(), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    slots_ = static_cast<Slot*>(shared);
    for (std::size_t i = 0; i < jobs(); ++i) new (&slots_[i]) Slot{};
  }
  ~Torturer() {
    for (Worker& worker : workers_) {
      if (worker.pid > 0) kill(worker.pid, SIGKILL);
      end(worker);
    }
    munmap(slots_, sizeof(Slot) * jobs());
  }
  Torturer(const Torturer&) = delete;
  Torturer& operator=(const Torturer&) = delete;

  TortureResult run() {
    workers_.resize(jobs());
    for (std::size_t i = 0; i < jobs(); ++i) start(i, run_.first + i);
    while (std::ranges::any_of(workers_, [](const Worker& each) { return each.pid > 0; })) {
      hear();
      if (on_progress_) on_progress_(done());
      if (result_.failures.size() >= run_.most_failures) break;
    }
    result_.done = done();
    return std::move(result_);
  }

 private:
  struct Worker {
    pid_t pid = -1;
    int pipe = -1;
    std::string heard;  // the beginning of a line
  };

  std::size_t jobs() const { return static_cast<std::size_t>(run_.jobs); }
  std::uint64_t behind() const { return run_.first + run_.seeds; }
  const Trial& trial(std::uint64_t seed) const { return trials_[seed % trials_.size()]; }
  std::uint64_t done() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < jobs(); ++i) sum += slots_[i].done;
    return sum;
  }

  // Every so many-th seed from that one on.
  void start(std::size_t index, std::uint64_t seed) {
    if (seed >= behind()) return;
    int ends[2];
    if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    slots_[index].at = seed;
    const pid_t pid = fork();
    if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid == 0) {
      close(ends[0]);
      work(slots_[index], ends[1], seed);
      _exit(0);
    }
    close(ends[1]);
    workers_[index] = {pid, ends[0], ""};
  }

  void work(Slot& slot, int pipe, std::uint64_t seed) const {
    spdlog::set_level(spdlog::level::off);  // losses are what this is about
    for (; seed < behind(); seed += jobs()) {
      slot.at = seed;
      const Trial& each = trial(seed);
      const Ordeal ordeal = torture(*each.scenario, each.system, seed);
      if (!ordeal.wrongs.empty()) {
        const TortureFailure failure{each.scenario->name, each.system.name, seed, ordeal.story,
                                     ordeal.wrongs};
        tell(pipe, to_json(failure).dump() + "\n");
      }
      ++slot.done;
    }
  }
  static void tell(int pipe, std::string_view line) {
    while (!line.empty()) {
      const ssize_t taken = write(pipe, line.data(), line.size());
      if (taken < 0) _exit(1);  // nobody listens any more
      line.remove_prefix(static_cast<std::size_t>(taken));
    }
  }

  void hear() {
    std::vector<pollfd> waits;
    for (const Worker& each : workers_) waits.push_back({each.pipe, POLLIN, 0});
    if (poll(waits.data(), waits.size(), 100) < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "poll");
    }
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].pipe >= 0 && waits[i].revents != 0) read_from(i);
    }
  }

  void read_from(std::size_t index) {
    Worker& worker = workers_[index];
    char text[4096];
    const ssize_t got = read(worker.pipe, text, sizeof text);
    if (got > 0) {
      worker.heard.append(text, static_cast<std::size_t>(got));
      for (std::size_t end; (end = worker.heard.find('\n')) != std::string::npos;) {
        note(from_json(nlohmann::json::parse(worker.heard.substr(0, end))));
        worker.heard.erase(0, end + 1);
      }
      return;
    }
    const int status = end(worker);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    const std::uint64_t seed = slots_[index].at;
    const std::string why =
        WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "an error that nobody caught";
    note({trial(seed).scenario->name,
          trial(seed).system.name,
          seed,
          "(see the replay)",
          {fmt::format("the process was brought down: {}", why)}});
    ++slots_[index].done;
    start(index, seed + jobs());
  }

  void note(TortureFailure failure) {
    if (on_failure_) on_failure_(failure);
    result_.failures.push_back(std::move(failure));
  }

  // Its status.
  static int end(Worker& worker) {
    int status = 0;
    if (worker.pid > 0) waitpid(worker.pid, &status, 0);
    if (worker.pipe >= 0) close(worker.pipe);
    worker = {};
    return status;
  }

  TortureRun run_;
  std::vector<Trial> trials_;
  std::function<void(std::uint64_t)> on_progress_;
  std::function<void(const TortureFailure&)> on_failure_;
  Slot* slots_ = nullptr;
  std::vector<Worker> workers_;
  TortureResult result_;
};

}  // namespace

TortureResult run_torture(const TortureRun& run,
                          const std::function<void(std::uint64_t done)>& on_progress,
                          const std::function<void(const TortureFailure&)>& on_failure) {
  return Torturer(run, on_progress, on_failure).run();
}

}  // namespace starling
