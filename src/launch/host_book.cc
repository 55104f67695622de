#include "launch/host_book.h"

#include <algorithm>

namespace starling {

void HostBook::set(const std::vector<HostSlots>& hosts) {
  const auto find_in = [](auto& list, const std::string& name) {
    return std::ranges::find(list, name, &HostSlots::host);
  };
  std::erase_if(hosts_,
                [&](const HostSlots& host) { return find_in(hosts, host.host) == hosts.end(); });
  for (const HostSlots& host : hosts) {
    const auto known = find_in(hosts_, host.host);
    if (known == hosts_.end()) {
      hosts_.push_back(host);
    } else {
      known->slots = host.slots;
    }
  }
}

bool HostBook::is_usable(const HostSlots& host, Moment now) const {
  const auto found = failures_.find(host.host);
  return found == failures_.end() || now >= found->second.until;
}

bool HostBook::note_failure(const std::string& host, Moment now) {
  const bool others_are_left = std::ranges::any_of(
      hosts_, [&](const HostSlots& other) { return other.host != host && is_usable(other, now); });
  if (!others_are_left) return false;
  Failures& failures = failures_[host];
  if (now < failures.until) return true;  // it is, on account of another
  failures.until = Moment::max();
  if (cooldown_) {
    const int doublings = std::min(failures.count, 20);
    failures.until = now + std::min(cooldown_->least * (1 << doublings), cooldown_->most);
  }
  ++failures.count;
  return true;
}

std::map<std::string, int> HostBook::wanted(Moment now) const {
  std::map<std::string, int> wanted;
  int left = most_workers_;
  for (const HostSlots& host : hosts_) {
    const int workers = is_usable(host, now) ? std::min(host.slots, left) : 0;
    left -= workers;
    if (workers > 0) wanted[host.host] = workers;
  }
  return wanted;
}

}  // namespace starling
