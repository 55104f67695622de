#include "launch/lab.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/slowness.h"
#include "base/units.h"

namespace starling {

namespace {

using Words = std::vector<std::string>;

constexpr const char* kPrefix = "starling-";
constexpr const char* kSwitch = "switch";
constexpr const char* kFolder = "/run/netns";
// Less than a worker needs to start.
constexpr std::uint64_t kLeastMemory = 64'000'000;

struct Outcome {
  int status;
  std::string out, err;
};

// Runs a program to its end, without a shell in between.
Outcome run(const Words& words) {
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) {
    throw Error(fmt::format("no pipe: {}", ::strerror(errno)));
  }
  const pid_t pid = ::fork();
  if (pid < 0) throw Error(fmt::format("cannot start {}: {}", words[0], ::strerror(errno)));
  if (pid == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  const auto drain = [](int fd) {
    std::string text;
    std::array<char, 4096> piece;
    for (ssize_t got = 0; (got = ::read(fd, piece.data(), piece.size())) > 0;) {
      text.append(piece.data(), static_cast<std::size_t>(got));
    }
    ::close(fd);
    return text;
  };
  Outcome outcome{0, drain(out[0]), drain(err[0])};
  int status = 0;
  ::waitpid(pid, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  return outcome;
}

std::string must(const Words& words) {
  Outcome outcome = run(words);
  if (outcome.status == 127) {
    throw Error(fmt::format("a lab needs {}", words[0]), "apt-get install iproute2");
  }
  if (outcome.status != 0) {
    std::string why = outcome.err.substr(0, outcome.err.find('\n'));
    throw Error(fmt::format("`{}` failed: {}", fmt::join(words, " "), why),
                ::geteuid() == 0 ? "the machine may not allow network namespaces"
                                 : "a lab needs root: run it with sudo");
  }
  return std::move(outcome.out);
}

Words ip_in(const std::string& space, Words words) {
  words.insert(words.begin(), {"ip", "-n", space});
  return words;
}

// Of "100mbit"; tc refuses what is no rate.
double bytes_per_second(const std::string& rate) {
  char* unit = nullptr;
  const double number = std::strtod(rate.c_str(), &unit);
  const double factor = *unit == 'k' ? 1e3 : *unit == 'm' ? 1e6 : 1e9;
  return number * factor / 8;
}

// A real link does not save up what it did not send. A bucket must, a little: 5 ms of it, or two
// packets. Its queue holds 200 ms, or what TCP sends at once.
void shape(const std::string& space, const std::string& device, const std::string& rate) {
  const double bytes = bytes_per_second(rate);
  const double burst = std::clamp(bytes * 0.005, 3200.0, 64e3);
  const double queue = std::max(bytes * 0.2, 64e3);
  must({"tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst",
        fmt::format("{:.0f}", burst), "limit", fmt::format("{:.0f}", queue)});
}

bool is_lab_name(std::string_view name) {
  return !name.empty() && name.size() <= 32 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

void check_limits(const LabSpec& spec) {
  for (const auto& [host, factor] : spec.limits.slow) {
    if (host < 0 || host >= spec.hosts) {
      throw Error(fmt::format("there is no host {} to slow down", host),
                  fmt::format("they go from 0 to {}", spec.hosts - 1));
    }
    if (!Slowness::is_factor(factor)) {
      throw Error(fmt::format("host {} cannot be slowed {} times", host, factor),
                  fmt::format("choose from 1 to {}", Slowness::kMost));
    }
  }
}

}  // namespace

HostLimits LabLimits::of(int host) const {
  const auto slowed = slow.find(host);
  return {slowed == slow.end() ? 0 : 1 / slowed->second, memory_bytes};
}

std::pair<int, double> parse_slow_host(const std::string& text) {
  const std::optional<Slowness> slow = parse_slowness(text);
  if (!slow) {
    throw Error(
        fmt::format("'{}' names no slow host", text),
        fmt::format("write it like 3:5, for host 3 slowed five times (1 to {})", Slowness::kMost));
  }
  return {slow->who, slow->factor};
}

std::uint64_t parse_host_memory(const std::string& text) {
  // 512m, as people know it.
  const bool is_short =
      !text.empty() && std::string_view("kKmMgGtT").find(text.back()) != std::string_view::npos;
  const std::uint64_t bytes = parse_bytes(is_short ? text + 'B' : text);
  if (bytes < kLeastMemory) {
    throw Error(fmt::format("{} of memory is too little for a host", text),
                fmt::format("give it {} or more", format_bytes(kLeastMemory)));
  }
  return bytes;
}

LabSpec parse_lab_spec(const std::string& text) {
  LabSpec spec;
  std::string_view rest = text;
  if (const auto x = rest.find('x'); x != std::string_view::npos) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + x, spec.hosts);
    if (error != std::errc() || end != rest.data() + x) spec.hosts = -1;
    rest.remove_prefix(x + 1);
  }
  spec.rate = rest;
  const auto unit = rest.find_first_not_of("0123456789.");
  const bool is_rate =
      unit != std::string_view::npos && unit > 0 && unit <= 9 && rest[0] != '.' &&
      std::string_view(" kbit mbit gbit ").find(fmt::format(" {} ", rest.substr(unit))) !=
          std::string_view::npos;
  const bool sound = spec.hosts >= 0 && spec.hosts <= Lab::kMostHosts && is_rate;
  if (!sound || (text.find('x') != std::string::npos && spec.hosts == 0)) {
    throw Error(fmt::format("'{}' is no lab", text),
                fmt::format("write it like 6x100mbit, with up to {} hosts", Lab::kMostHosts));
  }
  return spec;
}

std::string Lab::name_space(int host) const { return fmt::format("{}{}-{}", kPrefix, name_, host); }
std::string Lab::switch_space() const { return fmt::format("{}{}-{}", kPrefix, name_, kSwitch); }
std::string Lab::address(int host) const { return fmt::format("10.77.0.{}", host + 1); }

Lab Lab::up(const std::string& name, const LabSpec& spec) {
  if (!is_lab_name(name)) {
    throw Error(fmt::format("a lab cannot be called '{}'", name),
                "use up to 32 small letters, digits and _");
  }
  for (const Lab& other : all()) {
    if (other.name() == name) {
      throw Error(
          fmt::format("the lab {} is up already", name),
          fmt::format("take it down with `starling lab down {}`, or choose another name", name));
    }
  }
  check_limits(spec);
  const Lab lab(name, spec.hosts);
  try {
    for (int host = 0; host < spec.hosts; ++host) {
      Cgroup::make(lab.name_space(host), spec.limits.of(host));
    }
    const std::string wires = lab.switch_space();
    must({"ip", "netns", "add", wires});
    must(ip_in(wires, {"link", "add", "br0", "type", "bridge"}));
    must(ip_in(wires, {"link", "set", "br0", "up"}));
    for (int host = 0; host < spec.hosts; ++host) {
      const std::string space = lab.name_space(host);
      const std::string port = fmt::format("port{}", host);
      must({"ip", "netns", "add", space});
      must(ip_in(space, {"link", "add", kInterface, "type", "veth", "peer", "name", port, "netns",
                         wires}));
      must(ip_in(space, {"addr", "add", lab.address(host) + "/24", "dev", kInterface}));
      must(ip_in(space, {"link", "set", "lo", "up"}));
      must(ip_in(space, {"link", "set", kInterface, "up"}));
      must(ip_in(wires, {"link", "set", port, "master", "br0"}));
      must(ip_in(wires, {"link", "set", port, "up"}));
      shape(space, kInterface, spec.rate);
      shape(wires, port, spec.rate);
    }
  } catch (const Error&) {
    lab.down();
    throw;
  }
  return lab;
}

std::vector<Lab> Lab::all() {
  std::vector<Lab> labs;
  const auto take = [&labs](const std::string& space, bool is_namespace) {
    const auto dash = space.rfind('-');
    const std::size_t begin = std::string_view(kPrefix).size();
    if (!space.starts_with(kPrefix) || dash < begin) return;
    const std::string name = space.substr(begin, dash - begin);
    if (!is_lab_name(name)) return;
    int host = 0;
    const char* const end = space.data() + space.size();
    // A number beyond what we build is somebody else's.
    const bool is_host =
        std::from_chars(space.data() + dash + 1, end, host).ptr == end && host < kMostHosts;
    // A switch has no control group.
    if (!is_host && !is_namespace) return;
    auto lab = std::ranges::find(labs, name, &Lab::name_);
    if (lab == labs.end()) lab = labs.insert(labs.end(), Lab(name, 0));
    if (is_host) lab->hosts_ = std::max(lab->hosts_, host + 1);
  };
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, none)) {
    take(entry.path().filename(), true);
  }
  for (const std::string& group : Cgroup::names(kPrefix)) take(group, false);
  std::ranges::sort(labs, {}, &Lab::name_);
  return labs;
}

Lab Lab::find(const std::string& name) {
  std::string known;
  for (const Lab& lab : all()) {
    if (lab.name() == name) return lab;
    known += (known.empty() ? "" : ", ") + lab.name();
  }
  throw Error(
      fmt::format("there is no lab '{}'", name),
      known.empty() ? "none is up; build one with `starling lab up`" : "there are " + known);
}

// Whatever of it is there: it may have been left half-built.
void Lab::down() const {
  for (int host = 0; host < hosts_; ++host) {
    Cgroup::find(name_space(host)).remove();
    run({"ip", "netns", "del", name_space(host)});
  }
  run({"ip", "netns", "del", switch_space()});
}

std::string Lab::rate() const {
  const Outcome shown = run({"tc", "-n", name_space(0), "qdisc", "show", "dev", kInterface});
  const auto at = shown.out.find("rate ");
  if (at == std::string::npos) return "?";
  return shown.out.substr(at + 5, shown.out.find(' ', at + 5) - at - 5);
}

std::vector<int> Lab::processes(int host) const {
  std::istringstream words(run({"ip", "netns", "pids", name_space(host)}).out);
  std::vector<int> pids;
  for (int pid = 0; words >> pid;) pids.push_back(pid);
  return pids;
}

HostLimits Lab::limits(int host) const { return Cgroup::find(name_space(host)).limits(); }

InterfaceCount Lab::traffic(int host) const {
  const Outcome shown = run(ip_in(name_space(host), {"-s", "-j", "link", "show", kInterface}));
  const auto link = nlohmann::json::parse(shown.out, nullptr, false);
  if (!link.is_array() || link.empty() || !link[0].contains("stats64")) return {};
  const auto& stats = link[0]["stats64"];
  return {.sent_bytes = stats["tx"].value("bytes", std::uint64_t{0}),
          .received_bytes = stats["rx"].value("bytes", std::uint64_t{0})};
}

namespace {

bool stands(const std::string& name) {
  const std::vector<Lab> labs = Lab::all();
  return std::ranges::find(labs, name, &Lab::name) != labs.end();
}

constexpr std::string_view kOwn = "run";

void take_down_orphans() {
  for (const Lab& lab : Lab::all()) {
    if (!is_of_a_job(lab.name())) continue;
    const std::string pid = lab.name().substr(kOwn.size());
    if (!std::filesystem::exists("/proc/" + pid)) lab.down();
  }
}

}  // namespace

bool is_of_a_job(std::string_view lab_name) {
  if (!lab_name.starts_with(kOwn)) return false;
  lab_name.remove_prefix(kOwn.size());
  return !lab_name.empty() && lab_name.find_first_not_of("0123456789") == std::string_view::npos;
}

LabStay::LabStay(const std::string& name_or_spec, int ranks, const LabLimits& limits) {
  own_ = !stands(name_or_spec);
  if (own_) {
    LabSpec spec = parse_lab_spec(name_or_spec);
    spec.limits = limits;
    if (spec.hosts == 0) spec.hosts = ranks;
    if (spec.hosts >= ranks) {
      take_down_orphans();
      lab_ = Lab::up(fmt::format("{}{}", kOwn, ::getpid()), spec);
      return;
    }
    own_ = false;
    throw Error(fmt::format("{} workers and servers need as many hosts, not {}", ranks, spec.hosts),
                "leave the number out to get as many as are needed");
  }
  lab_ = Lab::find(name_or_spec);
  if (lab_->hosts() < ranks) {
    throw Error(fmt::format("{} workers and servers need as many hosts, and the lab {} has {}",
                            ranks, lab_->name(), lab_->hosts()),
                "build a larger one with `starling lab up --hosts`");
  }
  if (limits.memory_bytes > 0 || !limits.slow.empty()) {
    throw Error(fmt::format("the lab {} stands, with limits that it was built with", lab_->name()),
                "give limits to `starling lab up`, or use a lab of the run's own, e.g. 6x100mbit");
  }
  for (int host = 0; host < ranks; ++host) {
    if (const std::string why = why_no_limits(lab_->limits(host)); !why.empty()) {
      throw Error(fmt::format("host {} of the lab {} has limits that we cannot keep: {}", host,
                              lab_->name(), why),
                  "use a lab without limits");
    }
  }
}

LabStay::~LabStay() {
  if (own_) lab_->down();
}

bool can_slow_hosts(const std::string& name_or_spec) {
  return !name_or_spec.empty() && !stands(name_or_spec) && why_no_limits({.cores = 1}).empty();
}

bool enter_host(const Lab& lab, int host) {
  const std::string name = lab.name_space(host);
  if (!Cgroup::find(name).enter()) return false;
  const int fd = ::open(fmt::format("{}/{}", kFolder, name).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool entered = ::setns(fd, CLONE_NEWNET) == 0;
  ::close(fd);
  return entered;
}

}  // namespace starling
