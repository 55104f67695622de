#include "net/lab.h"

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
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"

namespace starling {

namespace {

using Words = std::vector<std::string>;

constexpr const char* kPrefix = "starling-";
constexpr const char* kSwitch = "switch";
constexpr const char* kFolder = "/run/netns";

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

// A bucket large enough for the kernel's timer at any of our rates, and for a few packets.
void shape(const std::string& space, const std::string& device, const std::string& rate) {
  must({"tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst",
        "64kb", "latency", "200ms"});
}

bool is_lab_name(std::string_view name) {
  return !name.empty() && name.size() <= 32 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

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
  const Lab lab(name, spec.hosts);
  try {
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
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, none)) {
    const std::string space = entry.path().filename();
    const auto dash = space.rfind('-');
    const std::size_t begin = std::string_view(kPrefix).size();
    if (!space.starts_with(kPrefix) || dash < begin) continue;
    const std::string name = space.substr(begin, dash - begin);
    if (!is_lab_name(name)) continue;
    auto lab = std::ranges::find(labs, name, &Lab::name_);
    if (lab == labs.end()) lab = labs.insert(labs.end(), Lab(name, 0));
    int host = 0;
    const char* const end = space.data() + space.size();
    // A number beyond what we build is somebody else's.
    if (std::from_chars(space.data() + dash + 1, end, host).ptr == end && host < kMostHosts) {
      lab->hosts_ = std::max(lab->hosts_, host + 1);
    }
  }
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
  for (int host = 0; host < hosts_; ++host) run({"ip", "netns", "del", name_space(host)});
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

Lab::Counters Lab::counters(int host) const {
  const Outcome shown = run(ip_in(name_space(host), {"-s", "-j", "link", "show", kInterface}));
  const auto link = nlohmann::json::parse(shown.out, nullptr, false);
  if (!link.is_array() || link.empty() || !link[0].contains("stats64")) return {};
  const auto& stats = link[0]["stats64"];
  return {stats["tx"].value("bytes", std::uint64_t{0}),
          stats["rx"].value("bytes", std::uint64_t{0})};
}

namespace {

// A job's own lab is called run and the number of the process that made it.
constexpr std::string_view kOwn = "run";

void take_down_orphans() {
  for (const Lab& lab : Lab::all()) {
    if (!lab.name().starts_with(kOwn)) continue;
    const std::string pid = lab.name().substr(kOwn.size());
    if (!std::filesystem::exists("/proc/" + pid)) lab.down();
  }
}

}  // namespace

LabStay::LabStay(const std::string& name_or_spec, int ranks) {
  const std::vector<Lab> labs = Lab::all();
  own_ = std::ranges::find(labs, name_or_spec, &Lab::name) == labs.end();
  if (own_) {
    LabSpec spec = parse_lab_spec(name_or_spec);
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
}

LabStay::~LabStay() {
  if (own_) lab_->down();
}

bool enter_name_space(const std::string& name) {
  const int fd = ::open(fmt::format("{}/{}", kFolder, name).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool entered = ::setns(fd, CLONE_NEWNET) == 0;
  ::close(fd);
  return entered;
}

std::optional<Lab::Counters> own_counters(const std::string& interface) {
  std::ifstream table("/proc/self/net/dev");
  for (std::string line; std::getline(table, line);) {
    const auto colon = line.find(':');
    const auto begin = line.find_first_not_of(' ');
    if (colon == std::string::npos || line.substr(begin, colon - begin) != interface) continue;
    // Eight numbers of what came in, then eight of what went out; bytes are the first of each.
    std::istringstream numbers(line.substr(colon + 1));
    std::array<std::uint64_t, 9> values{};
    for (std::uint64_t& value : values) numbers >> value;
    return Lab::Counters{values[8], values[0]};
  }
  return std::nullopt;
}

}  // namespace starling
