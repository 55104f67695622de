#include "launch/hosts_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/version.h"
#include "launch/agent.h"
#include "launch/outlet.h"
#include "launch/programs.h"
#include "net/own_address.h"

namespace starling {

using nlohmann::json;

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kForOthersToNotice{3000};
constexpr milliseconds kForAgentsToEnd{5000};
constexpr milliseconds kForTheFirstToStop{75'000};  // it may have a model to save
constexpr milliseconds kSignOfLife{5000};
constexpr int kMostTold = 4;  // beside the first, in one line
constexpr std::size_t kMostLineBytes = 16 << 20;

// Lines of a stream, whole; the last one even if its end is missing.
class Lines {
 public:
  template <class Take>
  void take(std::string_view piece, const Take& use) {
    half_ += piece;
    std::size_t begin = 0;
    for (std::size_t end; (end = half_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      use(std::string_view(half_).substr(begin, end - begin));
    }
    half_.erase(0, begin);
    if (half_.size() > kMostLineBytes) half_.clear();
  }
  template <class Take>
  void finish(const Take& use) {
    if (!half_.empty()) use(std::string_view(half_));
    half_.clear();
  }

 private:
  std::string half_;
};

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

class HostsLauncher {
 public:
  HostsLauncher(const LaunchPlan& plan, const WorkerEvent& on_event, const WorkerEnd& on_end)
      : plan_(plan), on_event_(on_event), on_end_(on_end) {
    if (plan.hosts.size() > 1) {
      for (const HostSlots& each : plan.hosts) {
        if (each.host == "localhost" || each.host == "127.0.0.1") {
          throw Error(each.host + " is another machine to each of the hosts",
                      "name it as the others know it");
        }
      }
    }
  }
  ~HostsLauncher() {
    for (const auto& agent : agents_) {
      if (agent->pid > 0) ::kill(-agent->pid, SIGKILL);
      if (agent->pid > 0) ::waitpid(agent->pid, nullptr, 0);
    }
  }
  HostsLauncher(const HostsLauncher&) = delete;
  HostsLauncher& operator=(const HostsLauncher&) = delete;

  LaunchResult run() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) signals_.add(signal);
    wait_for_signals();
    for (std::size_t i = 0; i < plan_.hosts.size(); ++i) start_agent(static_cast<int>(i));
    // Connecting has a limit of its own; what stands in for ssh may have none.
    after(plan_.timeout, [this] { give_up_on_silent_hosts(); });
    give_signs_of_life();
    while (running_ > 0 || out_.busy() || err_.busy()) io_.run_one();
    return conclude();
  }

 private:
  struct Agent {
    Agent(asio::io_context& io, int machine_, const HostSlots& host_)
        : machine(machine_), host(host_.host), slots(host_.slots), to(io), out(io), err(io) {}

    int machine;
    std::string host;
    int slots;
    pid_t pid = -1;
    asio::posix::stream_descriptor to, out, err;
    int open_streams = 2;
    std::array<char, 16 << 10> out_piece, err_piece;
    Lines out_lines, err_lines;
    std::string last_words;
    std::string kept;  // what it has not taken yet
    bool writing = false;
    std::vector<OwnAddress> addresses;
    int port = 0;              // once it has said hello
    bool told_to_end = false;  // by us, so that its end is not its fault
    std::optional<json> result;
    bool over = false;
  };

  void start_agent(int machine) {
    const HostSlots& host = plan_.hosts[static_cast<std::size_t>(machine)];
    std::vector<std::string> words;
    if (is_here(host.host)) {
      words = {own_program(), "agent"};
    } else {
      std::istringstream rsh(plan_.rsh.empty() ? kUsualRsh : plan_.rsh);
      for (std::string word; rsh >> word;) words.push_back(word);
      words.push_back(host.host);
      words.push_back(fmt::format("exec {} agent", quoted(own_program())));
    }
    int in[2], out[2], err[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0 ||
        ::pipe2(err, O_CLOEXEC) != 0) {
      throw Error(fmt::format("no pipe: {}", ::strerror(errno)));
    }
    const pid_t launcher = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) throw Error(fmt::format("cannot start {}: {}", words[0], ::strerror(errno)));
    if (pid == 0) {
      // In a group of its own: Ctrl-C in the terminal is for us.
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != launcher) ::_exit(1);
      sigset_t none;
      ::sigemptyset(&none);
      ::sigprocmask(SIG_SETMASK, &none, nullptr);
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(err[1], STDERR_FILENO);
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      ::execvp(arguments[0], arguments.data());
      fmt::print(stderr, "cannot run {}: {}\n", words[0], ::strerror(errno));
      ::_exit(127);
    }
    ::setpgid(pid, pid);
    for (const int fd : {in[0], out[1], err[1]}) ::close(fd);
    auto& agent = *agents_.emplace_back(std::make_unique<Agent>(io_, machine, host));
    agent.pid = pid;
    agent.to.assign(in[1]);
    agent.out.assign(out[0]);
    agent.err.assign(err[0]);
    ++running_;
    read_out(agent);
    read_err(agent);
  }

  void read_out(Agent& agent) {
    agent.out.async_read_some(asio::buffer(agent.out_piece),
                              [this, &agent](const asio::error_code& error, std::size_t got) {
                                const auto use = [&](std::string_view line) { hear(agent, line); };
                                if (error) {
                                  agent.out_lines.finish(use);
                                  return stream_ended(agent);
                                }
                                agent.out_lines.take({agent.out_piece.data(), got}, use);
                                if (!out_.busy()) return read_out(agent);
                                out_.when_idle([this, &agent] { read_out(agent); });
                              });
  }
  void read_err(Agent& agent) {
    agent.err.async_read_some(asio::buffer(agent.err_piece),
                              [this, &agent](const asio::error_code& error, std::size_t got) {
                                const auto use = [&](std::string_view line) {
                                  hear_words(agent, line);
                                };
                                if (error) {
                                  agent.err_lines.finish(use);
                                  return stream_ended(agent);
                                }
                                agent.err_lines.take({agent.err_piece.data(), got}, use);
                                if (!err_.busy()) return read_err(agent);
                                err_.when_idle([this, &agent] { read_err(agent); });
                              });
  }

  // Before there is a worker, what is said is ssh's, and the last of it the reason why there is none.
  void hear_words(Agent& agent, std::string_view line) {
    if (!line.empty()) agent.last_words = line.substr(0, line.find('\r'));
    if (agent.port > 0) err_.put(std::string(line) + "\n");
  }

  void hear(Agent& agent, std::string_view line) {
    const std::optional<json> event = event_in(line);
    if (!event) {
      if (agent.port > 0)
        out_.put(std::string(line) + "\n");  // before that it is a login's greeting
      return;
    }
    try {
      if (event->contains("hello")) return meet(agent, *event);
      if (event->contains("event")) {
        return on_event_(event->at("rank"), event->at("event").get<std::string>());
      }
      if (event->contains("end")) {
        if (on_end_) on_end_(event->at("rank"), event->at("end"));
        return;
      }
      agent.result = *event;
      took_result(agent);
    } catch (const json::exception&) {  // an agent of ours says no such thing
      fail(fmt::format("{} said what no agent says", agent.host));
    }
  }

  void meet(Agent& agent, const json& hello) {
    if (hello.at("hello") != version()) {
      return fail(fmt::format("{} has Starling {}, and this machine {}; install the same on both",
                              agent.host, hello.at("hello").get<std::string>(), version()));
    }
    for (const json& each : hello.at("addresses")) {
      agent.addresses.push_back(
          {each.at(0), asio::ip::make_address(each.at(1).get<std::string>())});
    }
    agent.port = hello.at("port");
    const bool all = std::ranges::all_of(agents_, [](const auto& each) { return each->port > 0; });
    if (all) begin();
  }

  void begin() {
    if (stopping_) return;
    LaunchPlan part = plan_;
    part.hosts.clear();
    part.machines = static_cast<int>(agents_.size());
    part.secret = plan_.secret.empty() ? make_secret() : plan_.secret;
    part.shares.clear();
    for (const auto& agent : agents_) part.shares.push_back(agent->slots);
    const auto place = rendezvous();
    if (!place) return;
    part.rendezvous = *place;
    for (const auto& agent : agents_) {
      part.machine = agent->machine;
      part.workers = agent->slots;
      write(*agent, plan_line(part));
    }
    begun_ = true;
  }

  // The first host by the name that it was given, or by its address on the network that was chosen.
  std::optional<std::string> rendezvous() {
    const Agent& first = *agents_.front();
    if (plan_.network.empty()) {
      return fmt::format("{}:{}", name_for_others(plan_.hosts.front()), first.port);
    }
    std::vector<std::string> others;
    for (const auto& agent : agents_) {
      if (!address_on(plan_.network, agent->addresses)) {
        others.push_back(fmt::format("{} (it has {})", agent->host, in_words(agent->addresses)));
      }
    }
    if (!others.empty()) {
      fail(fmt::format("--interface {} is not on {}", plan_.network,
                       fmt::join(others, ", nor on ")));
      return std::nullopt;
    }
    return fmt::format("{}:{}", address_on(plan_.network, first.addresses)->to_string(),
                       first.port);
  }

  void write(Agent& agent, std::string text) {
    agent.kept += text;
    if (agent.writing || !agent.to.is_open()) return;
    write_kept(agent);
  }
  void write_kept(Agent& agent) {
    if (agent.kept.empty()) return;
    agent.writing = true;
    auto text = std::make_shared<std::string>(std::exchange(agent.kept, ""));
    asio::async_write(agent.to, asio::buffer(*text),
                      [this, &agent, text](const asio::error_code& error, std::size_t) {
                        agent.writing = false;
                        if (!error) write_kept(agent);  // else its end will tell
                      });
  }
  void pass_on(Agent& agent, int signal) {
    if (begun_ && !agent.over) write(agent, std::string(1, static_cast<char>(signal)));
  }

  void give_signs_of_life() {
    after(kSignOfLife, [this] {
      for (const auto& agent : agents_) pass_on(*agent, 0);
      give_signs_of_life();
    });
  }

  void stream_ended(Agent& agent) {
    if (--agent.open_streams > 0) return;
    int status = 0;
    ::kill(-agent.pid, SIGKILL);  // it has closed all, and has nothing more to do
    ::waitpid(agent.pid, &status, 0);
    agent.pid = -1;
    agent.over = true;
    asio::error_code ignored;
    agent.to.close(ignored);
    --running_;
    if (!agent.result && !agent.told_to_end && !result_.interrupted) lose(agent);
    if (&agent == asked_first_) stop_others();
  }

  void lose(const Agent& agent) {
    const std::string said = agent.last_words.empty() ? "" : fmt::format(" ({})", agent.last_words);
    if (agent.port == 0) {
      return fail(fmt::format("cannot start workers on {}{}; see that `{} {} {} --version` works",
                              agent.host, said,
                              plan_.rsh.empty() ? "ssh -o BatchMode=yes" : plan_.rsh, agent.host,
                              own_program().string()));
    }
    const std::string loss = fmt::format("the connection to {} broke{}", agent.host, said);
    if (can_lose_hosts()) {
      result_.losses.push_back(loss);
      return;
    }
    fail(loss);
  }
  bool can_lose_hosts() const { return begun_ && (plan_.elastic || plan_.survives_losses); }

  void took_result(Agent& agent) {
    const int code = agent.result->at("exit_code");
    for (const json& loss : agent.result->at("losses")) result_.losses.push_back(loss);
    if (code == 0 || result_.interrupted) return;
    const std::string error = agent.result->at("error");
    if (can_lose_hosts()) return result_.losses.push_back(error);
    // Who has trouble of its own is to blame, rather than who lost another.
    const bool lost_others = agent.result->at("lost_others");
    if (result_.error.empty() || (only_losses_ && !lost_others)) {
      result_.error = error;
    } else if (!lost_others && ++told_ < kMostTold) {  // what each of them tried
      result_.error += "; " + error;
    }
    only_losses_ = (result_.exit_code == 0 || only_losses_) && lost_others;
    result_.exit_code = 1;
    if (!std::exchange(stopping_, true)) after(kForOthersToNotice, [this] { stop_others(); });
  }

  void give_up_on_silent_hosts() {
    for (const auto& agent : agents_) {
      if (agent->port > 0 || agent->over || stopping_) continue;
      fail(fmt::format("{} has not answered for {} s; see that `{} {} true` works", agent->host,
                       plan_.timeout.count(), plan_.rsh.empty() ? "ssh" : plan_.rsh, agent->host));
    }
  }

  void fail(const std::string& why) {
    if (result_.error.empty()) result_.error = why;
    result_.exit_code = 1;
    stopping_ = true;
    stop_others();
  }

  void stop_others() {
    for (const auto& agent : agents_) {
      agent->told_to_end = true;
      pass_on(*agent, SIGTERM);
    }
    // Before they have begun they have nothing to end.
    after(begun_ ? kForAgentsToEnd : milliseconds(0), [this] { hang_up(); });
  }
  // An agent whose launcher is gone kills its workers and goes. ssh waits for that; not for ever.
  void hang_up() {
    asio::error_code ignored;
    for (const auto& agent : agents_) agent->to.close(ignored);
    after(kForAgentsToEnd, [this] {
      for (const auto& agent : agents_) {
        if (agent->pid > 0) ::kill(-agent->pid, SIGKILL);
      }
    });
  }

  void wait_for_signals() {
    signals_.async_wait([this](const asio::error_code& error, int signal) {
      if (error) return;
      if (result_.interrupted || !begun_) {
        note_interrupt(signal);
        hang_up();
      } else {
        interrupt(signal);
      }
      wait_for_signals();
    });
  }
  void note_interrupt(int signal) {
    if (std::exchange(result_.interrupted, true)) return;
    result_.exit_code = 128 + signal;
    result_.error =
        fmt::format("interrupted by {}",
                    signal == SIGINT ? "Ctrl-C" : fmt::format("SIG{}", ::sigabbrev_np(signal)));
  }
  void interrupt(int signal) {
    note_interrupt(signal);
    const auto first = std::ranges::find_if(agents_, [](const auto& each) { return !each->over; });
    if (first == agents_.end()) return;
    asked_first_ = first->get();
    asked_first_->told_to_end = true;
    pass_on(*asked_first_, signal);
    after(kForTheFirstToStop, [this] { stop_others(); });
  }

  template <class Action>
  void after(milliseconds delay, Action action) {
    auto timer = std::make_shared<asio::steady_timer>(io_, delay);
    timer->async_wait([timer, action](const asio::error_code& error) {
      if (!error) action();
    });
  }

  LaunchResult conclude() {
    if (result_.interrupted || result_.exit_code != 0) return result_;
    const bool some_ended_well = std::ranges::any_of(agents_, [](const auto& agent) {
      return agent->result && agent->result->at("exit_code") == 0;
    });
    if (!some_ended_well) {
      result_.exit_code = 1;
      result_.error = result_.losses.empty() ? "no host is left" : result_.losses.front();
    }
    return result_;
  }

  const LaunchPlan& plan_;
  const WorkerEvent& on_event_;
  const WorkerEnd& on_end_;
  asio::io_context io_{1};
  asio::signal_set signals_{io_};
  Outlet out_{io_, STDOUT_FILENO}, err_{io_, STDERR_FILENO};
  std::vector<std::unique_ptr<Agent>> agents_;
  Agent* asked_first_ = nullptr;
  int running_ = 0, told_ = 0;
  bool begun_ = false, stopping_ = false, only_losses_ = false;
  LaunchResult result_;
};

}  // namespace

LaunchResult launch_on_hosts(const LaunchPlan& plan, const WorkerEvent& on_event,
                             const WorkerEnd& on_end) {
  return HostsLauncher(plan, on_event, on_end).run();
}

}  // namespace starling
