// Hosts on the command line, as mpirun and horovodrun write them: "a:4,b:4".
#pragma once

#include <string>
#include <vector>

namespace starling {

inline constexpr int kMostSlots = 1024;

struct HostSlots {
  std::string host;
  int slots = 1;

  bool operator==(const HostSlots&) const = default;
};

// One slot where no number is given. Throws Error.
std::vector<HostSlots> parse_hosts(const std::string& text);

int slots_of(const std::vector<HostSlots>& hosts);

// As many of their slots, the first ones, as there are workers; hosts that get none are left out.
// Throws Error if there are too few.
std::vector<HostSlots> filled(std::vector<HostSlots> hosts, int workers);

// As other machines know it: without the user that ssh may be told, "user@host".
std::string name_for_others(const HostSlots& host);

// Whether it is this machine, so that nobody needs to be called.
bool is_here(const std::string& host);

}  // namespace starling
