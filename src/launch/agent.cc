#include "launch/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/version.h"
#include "net/own_address.h"
#include "net/tcp_host.h"

namespace starling {

using nlohmann::json;

namespace {

constexpr char kMark = '\x1e';  // a record separator, as JSON text sequences begin with (RFC 7464)
constexpr int kSilentMilliseconds = 60'000;
constexpr std::size_t kMostPlanBytes = 16 << 20;

// No buffer of ours may keep what is meant for the thread that listens later. Nothing if the launcher
// has gone instead.
std::optional<std::string> read_line(int fd, std::size_t most_bytes) {
  std::string line;
  for (char c = 0; line.size() < most_bytes && ::read(fd, &c, 1) == 1;) {
    if (c == '\n') return line;
    line += c;
  }
  return std::nullopt;
}

LaunchPlan plan_in(const json& text) {
  LaunchPlan plan;
  plan.command = text.at("command").get<std::vector<std::string>>();
  plan.server_command = text.at("server_command").get<std::vector<std::string>>();
  plan.workers = text.at("workers");
  plan.servers = text.at("servers");
  plan.survives_losses = text.at("survives_losses");
  plan.survives_lost_servers = text.at("survives_lost_servers");
  plan.elastic = text.at("elastic");
  plan.restarts = text.at("restarts");
  plan.spot_notice = text.at("spot_notice");
  plan.store = text.at("store");
  plan.store_start = text.at("store_start");
  plan.places = text.at("places").get<std::vector<std::string>>();
  plan.machines = text.at("machines");
  plan.machine = text.at("machine");
  plan.shares = text.at("shares").get<std::vector<int>>();
  plan.rendezvous = text.at("rendezvous");
  plan.secret = text.at("secret");
  plan.network = text.at("network");
  plan.timeout = std::chrono::seconds(text.at("timeout").get<int>());
  plan.stall = std::chrono::nanoseconds(text.at("stall").get<std::int64_t>());
  plan.run = text.at("run");
  plan.tls = text.at("tls");
  plan.certificates = text.at("certificates");
  plan.settings = text.at("settings");
  plan.timeline_folder = text.at("timeline_folder");
  plan.checkpoints = text.at("checkpoints");
  plan.resume = text.at("resume");
  plan.exports = text.at("exports").get<std::vector<std::string>>();
  return plan;
}

// As it would be where the launcher is, if this machine has such a folder.
void enter(const std::string& folder) {
  std::error_code none;
  std::filesystem::current_path(folder, none);
}

void make_folders(const LaunchPlan& plan) {
  std::error_code seen_later;
  for (const std::string& folder : {plan.run, plan.checkpoints, plan.timeline_folder}) {
    if (!folder.empty()) std::filesystem::create_directories(folder, seen_later);
  }
}

// The guardian (launcher.cc) and the kernel see to it that workers go with us.
[[noreturn]] void end_all() {
  ::kill(::getpid(), SIGKILL);
  ::_exit(1);
}

[[noreturn]] void listen_to_launcher() {
  while (true) {
    pollfd launcher{STDIN_FILENO, POLLIN, 0};
    if (::poll(&launcher, 1, kSilentMilliseconds) == 0) end_all();
    char number = 0;
    if (::read(STDIN_FILENO, &number, 1) != 1) end_all();
    if (number > 0) ::kill(::getpid(), number);
  }
}

void say(const json& event) {
  std::fputs(event_line(event).c_str(), stdout);
  std::fflush(stdout);
}

json addresses_as_json() {
  json list = json::array();
  for (const auto& [interface, address] : own_addresses()) {
    list.push_back({interface, address.to_string()});
  }
  return list;
}

// A signal that ends the terminal's session is the launcher's to hear, not ours.
void stand_apart() {
  ::setsid();
  ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

std::string event_line(const json& event) {
  return kMark + event.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<json> event_in(std::string_view line) {
  if (line.empty() || line[0] != kMark) return std::nullopt;
  json event = json::parse(line.substr(1), nullptr, false);
  if (!event.is_object()) return std::nullopt;
  return event;
}

std::string plan_line(const LaunchPlan& plan) {
  const json text = {
      {"folder", std::filesystem::current_path().string()},
      {"command", plan.command},
      {"server_command", plan.server_command},
      {"workers", plan.workers},
      {"servers", plan.servers},
      {"survives_losses", plan.survives_losses},
      {"survives_lost_servers", plan.survives_lost_servers},
      {"elastic", plan.elastic},
      {"restarts", plan.restarts},
      {"spot_notice", plan.spot_notice},
      {"store", plan.store},
      {"store_start", plan.store_start},
      {"places", plan.places},
      {"machines", plan.machines},
      {"machine", plan.machine},
      {"shares", plan.shares},
      {"rendezvous", plan.rendezvous},
      {"secret", plan.secret},
      {"network", plan.network},
      {"timeout", plan.timeout.count()},
      {"stall", plan.stall.count()},
      {"run", plan.run},
      {"tls", plan.tls},
      {"certificates", plan.certificates},
      {"settings", plan.settings},
      {"timeline_folder", plan.timeline_folder},
      {"checkpoints", plan.checkpoints},
      {"resume", plan.resume},
      {"exports", plan.exports},
  };
  return text.dump() + "\n";
}

int run_agent() {
  stand_apart();
  TcpLoop loop;
  asio::ip::tcp::acceptor listener = listen_anywhere(loop);
  say({{"hello", version()},
       {"addresses", addresses_as_json()},
       {"port", listener.local_endpoint().port()}});
  const std::optional<std::string> line = read_line(STDIN_FILENO, kMostPlanBytes);
  if (!line) return 1;
  LaunchResult result;
  try {
    const json text = json::parse(*line);
    enter(text.at("folder"));
    LaunchPlan plan = plan_in(text);
    make_folders(plan);
    plan.prints_events = true;
    if (plan.machine == 0) {
      plan.listen_fd = listener.native_handle();
    } else {
      listener.close();
    }
    std::thread(listen_to_launcher).detach();
    result = launch(plan, [](int, std::string_view) {});
  } catch (const std::exception& error) {
    result.exit_code = 1;
    result.error = error.what();
  }
  // The launcher's outlet may have left the pipe in a mode that fputs does not know.
  ::fcntl(STDOUT_FILENO, F_SETFL, ::fcntl(STDOUT_FILENO, F_GETFL) & ~O_NONBLOCK);
  say({{"exit_code", result.exit_code},
       {"error", result.error},
       {"lost_others", result.lost_others},
       {"losses", result.losses}});
  return result.exit_code;
}

}  // namespace starling
