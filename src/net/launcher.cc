#include "net/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/read_until.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <asio/streambuf.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <istream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/error.h"
#include "net/job.h"
#include "net/join.h"

namespace starling {

namespace {

constexpr std::chrono::milliseconds kTimeToNotice{1500};
constexpr std::chrono::milliseconds kTimeToEnd{2000};
constexpr std::size_t kMaxEventBytes = 1 << 20;

struct Pipe {
  int read_end;
  int write_end;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(fmt::format("no pipe: {}", ::strerror(errno)));
  return {ends[0], ends[1]};
}

// The guardian learns each worker's process group through a pipe. When the launcher is gone without
// having said goodbye (a zero), it kills them all.
class Guardian {
 public:
  Guardian() {
    const Pipe pipe = make_pipe();
    pid_ = ::fork();
    if (pid_ < 0) throw Error(fmt::format("cannot start a process: {}", ::strerror(errno)));
    if (pid_ == 0) {
      ::close(pipe.write_end);
      watch(pipe.read_end);
    }
    ::close(pipe.read_end);
    tell_ = pipe.write_end;
  }
  ~Guardian() {
    tell(0);
    ::close(tell_);
    ::waitpid(pid_, nullptr, 0);
  }
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void tell(pid_t group) {
    [[maybe_unused]] const auto written = ::write(tell_, &group, sizeof group);
  }

 private:
  [[noreturn]] static void watch(int pipe) {
    ::setsid();  // so that a Ctrl-C in the terminal does not reach it
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
    // It must not keep the launcher's output open: whoever reads that waits for its end.
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
    std::vector<pid_t> groups;
    pid_t group = 0;
    while (::read(pipe, &group, sizeof group) == sizeof group) {
      if (group == 0) ::_exit(0);
      groups.push_back(group);
    }
    for (pid_t each : groups) ::kill(-each, SIGKILL);
    ::_exit(0);
  }

  pid_t pid_;
  int tell_;
};

class Launcher {
 public:
  Launcher(const LaunchPlan& plan, const WorkerEvent& on_event)
      : plan_(plan), on_event_(on_event) {}

  LaunchResult run() {
    signals_.async_wait([this](const asio::error_code& error, int) {
      if (error) return;
      result_.interrupted = true;
      stop();
      // Again means now.
      signals_.async_wait([this](const asio::error_code& again, int) {
        if (!again) signal_all(SIGKILL);
      });
    });
    wait_for_children();
    start_workers();
    while (running_ > 0 || open_pipes_ > 0) io_.run_one();
    // A worker that ended well may have left children of its own.
    signal_groups(SIGKILL);
    return conclude();
  }

 private:
  struct Worker {
    int rank;
    pid_t pid;
    std::optional<int> status;  // as waitpid tells it, once it has ended
    std::unique_ptr<asio::posix::stream_descriptor> events;
    asio::streambuf buffer{kMaxEventBytes};
    std::optional<nlohmann::json> error;  // what it said was wrong
  };

  void start_workers() {
    TcpLoop sockets;
    std::optional<asio::ip::tcp::acceptor> listener;
    std::string rendezvous = plan_.rendezvous;
    if (plan_.machines == 1) {
      listener.emplace(listen_on_loopback(sockets));
      rendezvous = fmt::format("127.0.0.1:{}", listener->local_endpoint().port());
    }
    const std::string secret = plan_.secret.empty() ? make_secret() : plan_.secret;
    for (int local = 0; local < plan_.workers; ++local) {
      const int rank = plan_.machine * plan_.workers + local;
      const Pipe events = make_pipe();
      const int listen_fd = rank == 0 && listener ? listener->native_handle() : -1;
      std::vector<std::string> environment = {
          fmt::format("{}={}", kRankVariable, rank),
          fmt::format("{}={}", kSizeVariable, plan_.machines * plan_.workers),
          fmt::format("{}={}", kLocalSizeVariable, plan_.workers),
          fmt::format("{}={}", kRendezvousVariable, rendezvous),
          fmt::format("{}={}", kSecretVariable, secret),
          // All machines of a job know its secret, so its number can be made from it.
          fmt::format("{}={}", kJobVariable, std::hash<std::string>()(secret)),
          fmt::format("{}={}", kEventsVariable, events.write_end),
          fmt::format("{}={}", kTimeoutVariable, plan_.timeout.count()),
          fmt::format("{}={}", kSettingsVariable, plan_.settings),
      };
      // Workers that each start a thread a core stand in each other's way.
      if (std::getenv("OMP_NUM_THREADS") == nullptr) {
        const int cores = static_cast<int>(std::thread::hardware_concurrency());
        environment.push_back(fmt::format("OMP_NUM_THREADS={}", std::max(1, cores / plan_.workers)));
      }
      if (listen_fd >= 0) environment.push_back(fmt::format("{}={}", kListenVariable, listen_fd));

      const pid_t launcher = ::getpid();
      const pid_t pid = ::fork();
      if (pid < 0) {
        signal_all(SIGKILL);
        throw Error(fmt::format("cannot start worker {}: {}", rank, ::strerror(errno)));
      }
      if (pid == 0) become_worker(environment, {events.write_end, listen_fd}, launcher);
      ::setpgid(pid, pid);  // here too: whoever is first
      guardian_.tell(pid);
      ::close(events.write_end);
      auto& worker = *workers_.emplace_back(std::make_unique<Worker>());
      worker.rank = rank;
      worker.pid = pid;
      worker.events = std::make_unique<asio::posix::stream_descriptor>(io_, events.read_end);
      ++running_;
      ++open_pipes_;
      read_events(worker);
    }
  }

  [[noreturn]] void become_worker(const std::vector<std::string>& environment,
                                  const std::vector<int>& keep_open, pid_t launcher) const {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != launcher) ::_exit(1);  // it died before we asked to be told
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE}) ::signal(signal, SIG_DFL);
    for (int fd : keep_open) {
      if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
    }
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, STDIN_FILENO);
    for (const std::string& variable : environment) ::putenv(const_cast<char*>(variable.c_str()));
    std::vector<char*> arguments;
    for (const std::string& word : plan_.command)
      arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    const std::string message =
        fmt::format("cannot run {}: {}\n", plan_.command[0], ::strerror(errno));
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
    ::_exit(127);
  }

  void read_events(Worker& worker) {
    asio::async_read_until(*worker.events, worker.buffer, '\n',
                           [this, &worker](const asio::error_code& error, std::size_t) {
                             if (error) {  // its end, or a line beyond all bounds
                               worker.events->close();
                               --open_pipes_;
                               return;
                             }
                             std::istream lines(&worker.buffer);
                             std::string line;
                             std::getline(lines, line);
                             take_event(worker, line);
                             read_events(worker);
                           });
  }

  void take_event(Worker& worker, const std::string& line) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.value("event", "") == "error") {
      if (!worker.error) worker.error = event;
      return;
    }
    on_event_(worker.rank, line);
  }

  void wait_for_children() {
    children_.async_wait([this](const asio::error_code& error, int) {
      if (error) return;
      for (const auto& worker : workers_) {
        int status = 0;
        if (!worker->status && ::waitpid(worker->pid, &status, WNOHANG) == worker->pid) {
          ended(*worker, status);
        }
      }
      wait_for_children();
    });
  }

  void ended(Worker& worker, int status) {
    worker.status = status;
    --running_;
    if (status == 0 || result_.interrupted) return;
    if (first_to_fail_ == nullptr) {
      first_to_fail_ = &worker;
      after(kTimeToNotice, [this] { stop(); });
    }
    ::kill(-worker.pid, SIGKILL);  // its children
  }

  void stop() {
    signal_all(SIGTERM);
    after(kTimeToEnd, [this] {
      signal_all(SIGKILL);
      // Somebody outside our groups may hold a pipe open; do not wait for that.
      for (const auto& worker : workers_) {
        if (worker->events->is_open()) worker->events->cancel();
      }
    });
  }

  template <class Action>
  void after(std::chrono::milliseconds delay, Action action) {
    auto timer = std::make_shared<asio::steady_timer>(io_, delay);
    timer->async_wait([timer, action](const asio::error_code& error) {
      if (!error) action();
    });
  }

  void signal_all(int signal) {
    for (const auto& worker : workers_) {
      if (!worker->status) ::kill(-worker->pid, signal);
    }
  }
  void signal_groups(int signal) {
    for (const auto& worker : workers_) ::kill(-worker->pid, signal);
  }

  static std::string describe(const Worker& worker) {
    if (worker.error)
      return fmt::format("rank {}: {}", worker.rank, worker.error->value("message", ""));
    const int status = worker.status.value_or(0);
    if (WIFSIGNALED(status)) {
      return fmt::format("rank {} was killed by signal {} ({})", worker.rank, WTERMSIG(status),
                         ::strsignal(WTERMSIG(status)));
    }
    return fmt::format("rank {} exited with status {}", worker.rank, WEXITSTATUS(status));
  }

  // Whose fault it was: a worker that ran into trouble of its own rather than one that lost
  // another.
  LaunchResult conclude() {
    if (result_.interrupted) {
      result_.exit_code = 130;
      result_.error = "interrupted";
      return result_;
    }
    if (first_to_fail_ == nullptr) return result_;
    const Worker* culprit = first_to_fail_;
    for (const auto& worker : workers_) {
      const bool own_trouble = worker->error
                                   ? !worker->error->value("peer_lost", false)
                                   : worker->status.value_or(0) != 0 && !signalled_by_us(*worker);
      if (own_trouble) {
        culprit = worker.get();
        break;
      }
    }
    result_.exit_code = 1;
    result_.error = describe(*culprit);
    if (culprit->error == std::nullopt && first_to_fail_->error && culprit != first_to_fail_) {
      result_.error += "; " + describe(*first_to_fail_);
    } else {
      for (const auto& worker : workers_) {
        if (worker.get() != culprit && worker->error && worker->error->value("peer_lost", false)) {
          result_.error += "; " + describe(*worker);
          break;
        }
      }
    }
    return result_;
  }

  static bool signalled_by_us(const Worker& worker) {
    const int status = *worker.status;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
  }

  const LaunchPlan& plan_;
  const WorkerEvent& on_event_;
  Guardian guardian_;  // before anything that it should not inherit
  asio::io_context io_{1};
  asio::signal_set signals_{io_, SIGINT, SIGTERM, SIGHUP};
  asio::signal_set children_{io_, SIGCHLD};
  std::vector<std::unique_ptr<Worker>> workers_;
  int running_ = 0;
  int open_pipes_ = 0;
  Worker* first_to_fail_ = nullptr;
  LaunchResult result_;
};

}  // namespace

LaunchResult launch(const LaunchPlan& plan, const WorkerEvent& on_event) {
  if (plan.command.empty()) throw Error("there is no program to launch", "give one after --");
  return Launcher(plan, on_event).run();
}

std::string make_secret() {
  std::array<unsigned char, 16> bytes;
  if (RAND_bytes(bytes.data(), bytes.size()) != 1)
    throw Error("the system has no randomness to offer");
  std::string text;
  for (unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace starling
