// HostBook: how many workers each host of an elastic job should have, by what a host discovery script
// says and by who has failed. It follows Horovod's rules:
//
// - hosts get as many workers as they have slots, in the order in which they were named first, until
//   there are as many as there may be;
// - a host on which a worker fails is blacklisted: for good, or for a time that doubles with each
//   failure where there is a cool-down. Unlike Horovod's, the last host that is left never is: its
//   worker is started again.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/host_script.h"

namespace starling {

struct Cooldown {
  std::chrono::seconds least{0}, most{0};
};

class HostBook {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  explicit HostBook(int most_workers, std::optional<Cooldown> cooldown = {})
      : most_workers_(most_workers), cooldown_(cooldown) {}

  // What the script says now.
  void set(const std::vector<HostSlots>& hosts);
  // A worker has failed there. Whether the host is blacklisted now.
  bool note_failure(const std::string& host, Moment now);
  // By host, those that should have none left out.
  std::map<std::string, int> wanted(Moment now) const;

 private:
  bool is_usable(const HostSlots& host, Moment now) const;

  struct Failures {
    int count = 0;
    Moment until;
  };
  int most_workers_;
  std::optional<Cooldown> cooldown_;
  std::vector<HostSlots> hosts_;  // those that were there before stay in front
  std::map<std::string, Failures> failures_;
};

}  // namespace starling
