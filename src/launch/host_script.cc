#include "launch/host_script.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <memory>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "launch/pipe.h"

namespace starling {

namespace {

constexpr std::chrono::seconds kTimeForAScript{30};
constexpr std::size_t kMostPrinted = 1 << 16;

class ScriptRun : public std::enable_shared_from_this<ScriptRun> {
 public:
  ScriptRun(asio::io_context& io, const std::string& path,
            std::function<void(const ScriptEnd&)> on_end)
      : from_(io), alarm_(io), nap_(io), path_(path), on_end_(std::move(on_end)) {}
  ~ScriptRun() {
    if (pid_ < 0) return;
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ScriptRun(const ScriptRun&) = delete;
  ScriptRun& operator=(const ScriptRun&) = delete;

  // That it cannot be started is an end like any other: it may be different the next time.
  void begin() {
    try {
      start();
    } catch (const Error& error) {
      asio::post(from_.get_executor(),
                 [self = shared_from_this(), why = std::string(error.what())] {
                   self->on_end_({"", why, false});
                 });
    }
  }

 private:
  void start() {
    const Pipe pipe = make_pipe();
    pid_ = ::fork();
    if (pid_ < 0) {
      const std::string why = ::strerror(errno);
      ::close(pipe.read_end);
      ::close(pipe.write_end);
      throw Error(fmt::format("it cannot be started: {}", why));
    }
    if (pid_ == 0) become_script(path_.c_str(), pipe.write_end);
    ::setpgid(pid_, pid_);
    ::close(pipe.write_end);
    from_.assign(pipe.read_end);
    alarm_.expires_after(kTimeForAScript);
    alarm_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error) self->give_up(fmt::format("it has not ended after {}", kTimeForAScript));
    });
    read();
  }

  [[noreturn]] static void become_script(const char* path, int out) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE}) ::signal(signal, SIG_DFL);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    ::execlp(path, path, nullptr);
    ::_exit(errno == EACCES ? 126 : 127);  // as a shell tells it
  }

  void read() {
    from_.async_read_some(
        asio::buffer(piece_),
        [self = shared_from_this()](const asio::error_code& error, std::size_t got) {
          if (error) return self->await_end();
          self->printed_.append(self->piece_.data(), got);
          if (self->printed_.size() > kMostPrinted)
            return self->give_up("it prints without an end");
          self->read();
        });
  }

  // It has closed its output, which most do by ending.
  void await_end() {
    int status = 0;
    if (pid_ < 0) return;
    if (::waitpid(pid_, &status, WNOHANG) != 0) return conclude(status, "");
    nap_.expires_after(std::chrono::milliseconds(10));
    nap_.async_wait([self = shared_from_this()](const asio::error_code&) { self->await_end(); });
  }

  void give_up(const std::string& why) {
    if (pid_ < 0) return;
    int status = 0;
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, &status, 0);
    conclude(status, why);
  }

  void conclude(int status, std::string error) {
    pid_ = -1;
    alarm_.cancel();
    asio::error_code ignored;
    from_.close(ignored);
    if (error.empty() && WIFEXITED(status) && WEXITSTATUS(status) == 126) {
      error = "it may not be run; see `chmod +x`";
    } else if (error.empty() && WIFEXITED(status) && WEXITSTATUS(status) == 127) {
      error = "it is not there, or cannot be run";
    } else if (error.empty() && status != 0) {
      error = WIFEXITED(status) ? fmt::format("it exited with status {}", WEXITSTATUS(status))
                                : fmt::format("it was killed by signal {}", WTERMSIG(status));
    }
    const bool has_said =
        WIFEXITED(status) && WEXITSTATUS(status) != 126 && WEXITSTATUS(status) != 127;
    on_end_({std::move(printed_), std::move(error), has_said});
  }

  asio::posix::stream_descriptor from_;
  asio::steady_timer alarm_, nap_;
  std::string path_;
  std::function<void(const ScriptEnd&)> on_end_;
  pid_t pid_ = -1;
  std::string printed_;
  std::array<char, 4096> piece_;
};

HostSlots parse_line(const std::string& line, int usual_slots) {
  const std::size_t colon = line.rfind(':');
  HostSlots host{line.substr(0, colon), usual_slots};
  if (colon != std::string::npos) {
    const char* const begin = line.data() + colon + 1;
    const char* const end = line.data() + line.size();
    if (std::from_chars(begin, end, host.slots).ptr != end || begin == end) host.slots = 0;
  }
  if (host.host.empty() || host.slots < 1 || host.slots > kMostSlots) {
    throw Error(fmt::format("the host discovery script says '{}'", line.substr(0, 100)),
                "a line is a host and how many workers it may have, e.g. localhost:4");
  }
  if (!is_here(host.host)) {
    throw Error(fmt::format("the host discovery script names {}, which is another machine",
                            host.host.substr(0, 100)),
                "workers are started on this one; others join with `starling join`");
  }
  return host;
}

}  // namespace

std::vector<HostSlots> parse_host_slots(const std::string& text, int usual_slots) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::erase_if(line, [](unsigned char c) { return std::isspace(c) != 0; });
    if (line.empty()) continue;
    HostSlots host = parse_line(line, usual_slots);
    const auto known = std::ranges::find(hosts, host.host, &HostSlots::host);
    if (known != hosts.end()) {
      throw Error(fmt::format("the host discovery script names {} twice", host.host),
                  "one line a host");
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

void run_host_script(asio::io_context& io, const std::string& path,
                     std::function<void(const ScriptEnd&)> on_end) {
  std::make_shared<ScriptRun>(io, path, std::move(on_end))->begin();
}

std::vector<HostSlots> await_host_slots(const std::string& path, int usual_slots, int enough,
                                        std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  bool is_first = true;
  while (true) {
    ScriptEnd end;
    asio::io_context io{1};
    run_host_script(io, path, [&](const ScriptEnd& told) { end = told; });
    io.run();
    if (is_first && !end.error.empty()) {
      throw Error(fmt::format("the host discovery script {}: {}", path, end.error));
    }
    is_first = false;
    const std::vector<HostSlots> hosts =
        end.error.empty() ? parse_host_slots(end.printed, usual_slots) : std::vector<HostSlots>{};
    if (slots_of(hosts) >= enough) return hosts;
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error(fmt::format("the host discovery script named {} slots, and {} are needed",
                              slots_of(hosts), enough),
                  fmt::format("it was asked for {} s", patience.count()));
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace starling
