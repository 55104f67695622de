#include "launch/cgroup.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "base/error.h"

namespace starling {

namespace {

namespace fs = std::filesystem;

struct Controller {
  const char* name;
  const char* limits;  // in words
  const char* flag;
};
constexpr Controller kCpu{"cpu", "processor time", "--slow"};
constexpr Controller kMemory{"memory", "memory", "--memory"};

std::vector<Controller> needed_for(const HostLimits& limits) {
  std::vector<Controller> needed;
  if (limits.cores > 0) needed.push_back(kCpu);
  if (limits.memory_bytes > 0) needed.push_back(kMemory);
  return needed;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool lists(const std::string& text, const std::string& word, char separator) {
  std::istringstream words(text);
  for (std::string each; std::getline(words, each, separator);) {
    if (each == word) return true;
  }
  return false;
}

// A write to such a file is a command to the kernel; errno says what it thought of it.
bool write(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

void must_write(const fs::path& path, const std::string& text) {
  errno = 0;
  if (!write(path, text)) {
    throw Error(fmt::format("cannot write {} to {}: {}", text, path.string(), ::strerror(errno)),
                "leave out the limits of hosts");
  }
}

bool is_of_v2(const fs::path& group_or_top) {
  return fs::exists(group_or_top / "cgroup.controllers");
}

std::string trimmed(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// The folders on top of all groups: v2's, beside v1's or alone, then v1's.
std::vector<fs::path> tops(const CgroupTree& tree) {
  return {tree.folder, tree.folder / "unified", tree.folder / kCpu.name,
          tree.folder / kMemory.name};
}

// The folder that a controller's groups are made in.
std::optional<fs::path> top_of(const Controller& controller, const CgroupTree& tree) {
  for (const fs::path& top : tops(tree)) {
    if (is_of_v2(top) ? lists(trimmed(text_of(top / "cgroup.controllers")), controller.name, ' ')
                      : top.filename() == controller.name && fs::exists(top / "cgroup.procs")) {
      return top;
    }
  }
  return std::nullopt;
}

// The group that this process is in. Lines are like 4:cpu,cpuacct:/group, and 0::/group for v2.
std::string own_group(const Controller& controller, bool v2, const CgroupTree& tree) {
  std::ifstream lines(tree.own);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (v2 ? controllers.empty() : lists(controllers, controller.name, ',')) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

std::string why_not(const Controller& controller, const CgroupTree& tree) {
  if (!fs::exists(tree.folder)) return fmt::format("there is no {}", tree.folder.string());
  const auto top = top_of(controller, tree);
  if (!top) return fmt::format("its control groups know no {}", controller.name);
  // Who puts a process into a group wants to hold it there: a service, a container, whoever runs
  // our tests. Only a login session's group holds nobody.
  const std::string own = own_group(controller, is_of_v2(*top), tree);
  if (own != "/" && !own.starts_with("/user.slice/")) {
    return fmt::format(
        "whoever started this has put it into the {} group {}, which it must not leave",
        controller.name, own);
  }
  if (::access(top->c_str(), W_OK) != 0) {
    return errno == EROFS ? fmt::format("{} is read-only", top->string()) : "it takes root";
  }
  return "";
}

// Short periods make a slow processor rather than one that stops and goes. The kernel takes no less
// than 1 ms of time, nor more than 1 s of period.
struct Quota {
  long time_us, period_us;
};
Quota quota(double cores) {
  const double period = std::clamp(2000 / cores, 10'000.0, 1'000'000.0);
  return {std::max(1000L, std::lround(cores * period)), std::lround(period)};
}

void limit_v1(const fs::path& group, const Controller& controller, const HostLimits& limits) {
  if (controller.name == kCpu.name) {
    const Quota part = quota(limits.cores);
    must_write(group / "cpu.cfs_period_us", std::to_string(part.period_us));
    must_write(group / "cpu.cfs_quota_us", std::to_string(part.time_us));
    return;
  }
  const std::string bytes = std::to_string(limits.memory_bytes);
  must_write(group / "memory.limit_in_bytes", bytes);
  write(group / "memory.memsw.limit_in_bytes", bytes);  // not there if swap is not counted
}

void limit_v2(const fs::path& group, const Controller& controller, const HostLimits& limits) {
  // Groups have only what the one above hands down. Most machines' does already.
  const fs::path handed_down = group.parent_path() / "cgroup.subtree_control";
  if (!lists(trimmed(text_of(handed_down)), controller.name, ' ')) {
    must_write(handed_down, fmt::format("+{}", controller.name));
  }
  if (controller.name == kCpu.name) {
    const Quota part = quota(limits.cores);
    must_write(group / "cpu.max", fmt::format("{} {}", part.time_us, part.period_us));
    return;
  }
  must_write(group / "memory.max", std::to_string(limits.memory_bytes));
  write(group / "memory.swap.max", "0");  // not there if swap is not counted
}

fs::path made(const fs::path& folder) {
  std::error_code error;
  if (!fs::create_directory(folder, error)) {
    throw Error(fmt::format("cannot make the control group {}: {}", folder.string(),
                            error ? error.message() : "it is there already"),
                error ? "leave out the limits of hosts" : "take it away with `starling lab down`");
  }
  return folder;
}

// Asks the process too: a number in a file may be stale, and 0 stands for a process that we cannot
// see, which to kill() is all of our own.
bool is_in(int pid, const std::string& name) {
  return pid > 0 && pid != ::getpid() &&
         text_of(fmt::format("/proc/{}/cgroup", pid)).find(":/" + name + "\n") != std::string::npos;
}

}  // namespace

std::string why_no_limits(const HostLimits& limits, const CgroupTree& tree) {
  for (const Controller& controller : needed_for(limits)) {
    if (std::string why = why_not(controller, tree); !why.empty()) return why;
  }
  return "";
}

Cgroup Cgroup::make(const std::string& name, const HostLimits& limits, const CgroupTree& tree) {
  for (const Controller& controller : needed_for(limits)) {
    if (const std::string why = why_not(controller, tree); !why.empty()) {
      throw Error(fmt::format("this machine does not let us limit {}: {}", controller.limits, why),
                  fmt::format("leave out {}", controller.flag));
    }
  }
  Cgroup group(name);
  try {
    for (const Controller& controller : needed_for(limits)) {
      const fs::path top = *top_of(controller, tree);
      const fs::path folder = top / name;
      if (std::ranges::find(group.folders_, folder) == group.folders_.end()) {
        group.folders_.push_back(made(folder));
      }
      (is_of_v2(top) ? limit_v2 : limit_v1)(folder, controller, limits);
    }
  } catch (const Error&) {
    group.remove();
    throw;
  }
  return group;
}

Cgroup Cgroup::find(const std::string& name, const CgroupTree& tree) {
  Cgroup group(name);
  for (const fs::path& top : tops(tree)) {
    if (fs::exists(top / "cgroup.procs") && fs::is_directory(top / name)) {
      group.folders_.push_back(top / name);
    }
  }
  return group;
}

std::vector<std::string> Cgroup::names(const std::string& prefix, const CgroupTree& tree) {
  std::set<std::string> found;
  for (const fs::path& top : tops(tree)) {
    std::error_code none;
    if (!fs::exists(top / "cgroup.procs")) continue;
    for (const auto& entry : fs::directory_iterator(top, none)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(prefix) && entry.is_directory(none)) found.insert(name);
    }
  }
  return {found.begin(), found.end()};
}

HostLimits Cgroup::limits() const {
  constexpr double kNoLimit = 0x1p62;  // v1 writes the largest number that there is
  HostLimits limits;
  for (const fs::path& folder : folders_) {
    // An unlimited one reads -1 or "max", which is no number.
    double time = 0, period = 0, bytes = 0;
    std::istringstream(text_of(folder / "cpu.max")) >> time >> period;
    std::istringstream(text_of(folder / "cpu.cfs_quota_us")) >> time;
    std::istringstream(text_of(folder / "cpu.cfs_period_us")) >> period;
    if (time > 0 && period > 0) limits.cores = time / period;
    std::istringstream(text_of(folder / "memory.max")) >> bytes;
    std::istringstream(text_of(folder / "memory.limit_in_bytes")) >> bytes;
    if (bytes > 0 && bytes < kNoLimit) limits.memory_bytes = static_cast<std::uint64_t>(bytes);
  }
  return limits;
}

bool Cgroup::enter() const {
  return std::ranges::all_of(folders_, [](const fs::path& folder) {
    return write(folder / "cgroup.procs", std::to_string(::getpid()));
  });
}

void Cgroup::remove() const {
  constexpr int kTries = 200;
  for (const fs::path& folder : folders_) {
    // Who is killed is gone a moment later.
    for (int i = 0; i < kTries && ::rmdir(folder.c_str()) != 0 && errno == EBUSY; ++i) {
      std::istringstream pids(text_of(folder / "cgroup.procs"));
      for (int pid = 0; pids >> pid;) {
        if (is_in(pid, name_)) ::kill(pid, SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

}  // namespace starling
