// A control group: what a lab's host may take of the processor and of memory, kept by the kernel.
// There are two versions of their file system, which many machines have side by side: a folder for
// each controller (v1), or one for all (v2). Each controller is used where it is. A group is only
// made for what is limited.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace starling {

struct HostLimits {  // 0: no limit
  double cores = 0;  // 0.2: a fifth of one core's time
  std::uint64_t memory_bytes = 0;

  bool any() const { return cores > 0 || memory_bytes > 0; }
};

// Where the kernel shows its groups, and which of them this process is in.
struct CgroupTree {
  std::filesystem::path folder = "/sys/fs/cgroup";
  std::filesystem::path own = "/proc/self/cgroup";
};

// Why such limits cannot be had here, in part of a line; empty if they can.
std::string why_no_limits(const HostLimits& limits, const CgroupTree& tree = {});

class Cgroup {
 public:
  // Throws Error if the machine does not let us, or there is one of that name.
  static Cgroup make(const std::string& name, const HostLimits& limits,
                     const CgroupTree& tree = {});
  // Whatever there is of it, which may be nothing.
  static Cgroup find(const std::string& name, const CgroupTree& tree = {});
  // The names of all groups that begin so.
  static std::vector<std::string> names(const std::string& prefix, const CgroupTree& tree = {});

  HostLimits limits() const;  // as the kernel tells them
  // Puts this process into it, for good, and with it all that it will start. Returns false, with
  // errno, if it cannot.
  bool enter() const;
  // Kills what still runs in it. Does no harm if there is nothing of it.
  void remove() const;

 private:
  explicit Cgroup(std::string name) : name_(std::move(name)) {}

  std::string name_;
  std::vector<std::filesystem::path> folders_;
};

}  // namespace starling
