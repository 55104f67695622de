// The lab: a network of its own on this machine. Each host is a network namespace with one
// interface, joined by a cable (veth) to a switch (a bridge) that stands in a namespace of its own.
// Both ends of a cable are shaped to the rate (tbf), as a full-duplex port is. Nothing is made
// outside of these namespaces, so nothing else on the machine can be touched, and taking a lab down
// is deleting them; labs do not see each other. It takes root and iproute2. Hosts can be limited in
// processor time and memory by control groups, which are called like their namespaces.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/cgroup.h"
#include "net/interface_count.h"

namespace starling {

// What hosts may take of the machine.
struct LabLimits {
  std::uint64_t memory_bytes = 0;   // of each; 0: no limit
  std::map<int, double> slow = {};  // host -> factor: it gets one part in so many of one core

  HostLimits of(int host) const;
};

struct LabSpec {
  int hosts = 0;     // 0: as many as are needed
  std::string rate;  // as tc writes it, e.g. 100mbit
  LabLimits limits = {};
};

// "6x100mbit" or "100mbit". Throws Error on anything else.
LabSpec parse_lab_spec(const std::string& text);
// "3:5": host 3, slowed five times. Throws Error on anything else.
std::pair<int, double> parse_slow_host(const std::string& text);
// "1g", "512MB", also decimal (base/units.h). Throws Error on anything else and on too little.
std::uint64_t parse_host_memory(const std::string& text);

class Lab {
 public:
  static constexpr int kMostHosts = 200;
  static constexpr const char* kInterface = "eth0";

  // Builds it. Throws Error if that takes root or iproute2, the name is taken, or the machine does
  // not know limits that are asked for; what was begun is taken down then.
  static Lab up(const std::string& name, const LabSpec& spec);
  // One that stands. Throws Error naming those there are.
  static Lab find(const std::string& name);
  static std::vector<Lab> all();

  // Ends what still runs on limited hosts: their groups cannot go before.
  void down() const;

  const std::string& name() const { return name_; }
  int hosts() const { return hosts_; }
  std::string rate() const;  // as tc tells it
  std::string name_space(int host) const;
  std::string address(int host) const;
  std::vector<int> processes(int host) const;
  HostLimits limits(int host) const;       // as the kernel tells them
  InterfaceCount traffic(int host) const;  // as the kernel counts it

 private:
  Lab(std::string name, int hosts) : name_(std::move(name)), hosts_(hosts) {}
  std::string switch_space() const;

  std::string name_;
  int hosts_;
};

// The lab that a job runs in: one that stands, by its name, which stays; or one of its own, as a
// spec, which is taken down again. Those that killed jobs have left behind are taken down as well.
class LabStay {
 public:
  // Throws Error if it has fewer hosts than `ranks`, or if limits are asked for and it is not one
  // of its own.
  LabStay(const std::string& name_or_spec, int ranks, const LabLimits& limits = {});
  ~LabStay();
  LabStay(const LabStay&) = delete;
  LabStay& operator=(const LabStay&) = delete;

  const Lab& lab() const { return *lab_; }

 private:
  std::optional<Lab> lab_;
  bool own_ = false;
};

// Whether it is the name of a job's own lab: run and the number of the process that made it. Nobody
// else may use such a name: when that process is gone, so is the lab.
bool is_of_a_job(std::string_view lab_name);

// Whether a job that is given this lab gets one of its own, whose hosts can be slowed down here.
bool can_slow_hosts(const std::string& name_or_spec);

// Enters a host's namespace and control group for good, for a process that is about to become a
// worker. Returns false, with errno, if it cannot.
bool enter_host(const Lab& lab, int host);

}  // namespace starling
