#include "launch/hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"

namespace starling {

namespace {

HostSlots parse_host(const std::string& word) {
  // What looks like a flag would be one to ssh.
  const auto refuse = [&]() -> HostSlots {
    throw Error(fmt::format("'{}' is no host:slots", word), "write them like --hosts a:4,b:4");
  };
  const std::size_t colon = word.rfind(':');
  HostSlots found{word.substr(0, colon)};
  if (found.host.empty() || found.host.starts_with('-')) return refuse();
  if (std::ranges::any_of(found.host, [](unsigned char c) { return c <= ' '; })) return refuse();
  if (colon == std::string::npos) return found;
  const char* end = word.data() + word.size();
  const auto [last, error] = std::from_chars(word.data() + colon + 1, end, found.slots);
  if (error != std::errc() || last != end || found.slots < 1 || found.slots > kMostSlots) {
    return refuse();
  }
  return found;
}

}  // namespace

std::vector<HostSlots> parse_hosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  std::set<std::string> known;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    hosts.push_back(parse_host(text.substr(begin, end - begin)));
    if (!known.insert(hosts.back().host).second) {
      throw Error(fmt::format("--hosts names {} twice", hosts.back().host),
                  "give all of its slots at once");
    }
    begin = end + 1;
  }
  return hosts;
}

int slots_of(const std::vector<HostSlots>& hosts) {
  int slots = 0;
  for (const HostSlots& each : hosts) slots += each.slots;
  return slots;
}

std::vector<HostSlots> filled(std::vector<HostSlots> hosts, int workers) {
  const int slots = slots_of(hosts);
  if (slots < workers) {
    throw Error(fmt::format("{} workers, and --hosts has {} slots", workers, slots),
                "name more hosts or slots, or fewer workers");
  }
  int left = workers;
  for (HostSlots& each : hosts) {
    each.slots = std::min(each.slots, left);
    left -= each.slots;
  }
  std::erase_if(hosts, [](const HostSlots& each) { return each.slots == 0; });
  return hosts;
}

std::string name_for_others(const HostSlots& host) {
  return host.host.substr(host.host.rfind('@') + 1);
}

bool is_here(const std::string& host) {
  char own[256] = "";
  ::gethostname(own, sizeof own - 1);
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == own;
}

}  // namespace starling
