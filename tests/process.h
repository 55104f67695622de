// Real processes under test: started with their output captured, signalled, waited for under a
// deadline, and found again in /proc with everything they have started: a mark in the environment,
// which every descendant inherits, tells a family from all other processes, whatever its groups,
// sessions and parents have become.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/temporary_folder.h"

namespace starling {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

// Looks again and again until the condition holds or the time is up; says which.
template <class Condition>
bool wait_until(std::chrono::milliseconds limit, const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return condition();
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

inline std::vector<std::string> lines_of(const std::string& text) { return split(text, '\n'); }

// What a file holds; nothing, if it cannot be read (a process may end while we look at it).
inline std::string file_text(const std::filesystem::path& path) {
  std::string text;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char bytes[4096];
  for (ssize_t got = 0; file >= 0 && (got = ::read(file, bytes, sizeof bytes)) > 0;) {
    text.append(bytes, static_cast<std::size_t>(got));
  }
  if (file >= 0) ::close(file);
  return text;
}

// A process of a family, as /proc shows it.
struct Relative {
  pid_t pid;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;

  std::string variable(const std::string& name) const {
    for (const std::string& each : environment) {
      if (each.starts_with(name + "=")) return each.substr(name.size() + 1);
    }
    return "";
  }
  std::string command() const {
    std::string text;
    for (const std::string& each : arguments) text += (text.empty() ? "" : " ") + each;
    return text;
  }
};

class Process {
 public:
  explicit Process(const std::vector<std::string>& command,
                   const std::vector<std::string>& variables = {}) {
    static std::atomic<int> count = 0;
    mark_ = "STARLING_TEST_MARK=" + std::to_string(::getpid()) + "-" + std::to_string(++count);
    out_ = captured("stdout");
    err_ = captured("stderr");

    std::vector<std::string> environment = {mark_};
    for (char** each = ::environ; *each != nullptr; ++each) {
      // Nothing that the tests' own surroundings may have set for Starling or its kernels.
      const std::string variable = *each;
      if (variable.starts_with("STARLING_") || variable.starts_with("OPENBLAS_CORETYPE=")) continue;
      environment.push_back(variable);
    }
    environment.insert(environment.end(), variables.begin(), variables.end());
    std::vector<char*> arguments = pointers(command);
    std::vector<char*> values = pointers(environment);
    const pid_t tester = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("cannot start " + command[0]);
    if (pid_ == 0) {
      ::setpgid(0, 0);                     // as a shell does with a job
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted test leaves nothing behind
      if (::getppid() != tester) ::_exit(1);
      const int nothing = ::open("/dev/null", O_RDONLY);
      ::dup2(nothing, STDIN_FILENO);
      ::dup2(out_, STDOUT_FILENO);
      ::dup2(err_, STDERR_FILENO);
      ::execvpe(arguments[0], arguments.data(), values.data());
      ::_exit(127);
    }
    ::setpgid(pid_, pid_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    for (const Relative& each : family()) ::kill(each.pid, SIGKILL);
    if (status_ < 0) ::waitpid(pid_, nullptr, 0);
    ::close(out_);
    ::close(err_);
  }

  pid_t pid() const { return pid_; }
  void signal(int signal) const { ::kill(pid_, signal); }
  // As a terminal does on Ctrl-C: to everybody in the foreground group.
  void signal_group(int signal) const { ::kill(-pid_, signal); }

  // Waits for its end: "exit 0", "signal 9", or "running" if the time is up.
  std::string wait(std::chrono::milliseconds limit) {
    wait_until(limit, [&] {
      int status = 0;
      if (status_ < 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
      return status_ >= 0;
    });
    if (status_ < 0) return "running";
    return WIFSIGNALED(status_) ? "signal " + std::to_string(WTERMSIG(status_))
                                : "exit " + std::to_string(WEXITSTATUS(status_));
  }

  // What it and its family have written so far.
  std::string out() const { return text(out_); }
  std::string err() const { return text(err_); }
  std::vector<std::string> err_lines_with(const std::string& part) const {
    std::vector<std::string> found;
    for (const std::string& line : lines_of(err())) {
      if (line.find(part) != std::string::npos) found.push_back(line);
    }
    return found;
  }

  // Itself and everybody who descends from it, as far as they are alive. (A zombie has no
  // environment any more.)
  std::vector<Relative> family() const {
    std::vector<Relative> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      Relative relative{std::stoi(name), {}, split(file_text(entry.path() / "environ"), '\0')};
      if (std::ranges::find(relative.environment, mark_) == relative.environment.end()) continue;
      relative.arguments = split(file_text(entry.path() / "cmdline"), '\0');
      found.push_back(std::move(relative));
    }
    return found;
  }

  // Whether all of its family is gone by then, itself included.
  bool gone_within(std::chrono::milliseconds limit) {
    return wait_until(limit, [&] {
      wait(0ms);  // else it stays as a zombie
      if (!family().empty()) return false;
      std::this_thread::sleep_for(20ms);  // in the middle of an exec, a process has no environment
      return family().empty();
    });
  }

  std::string family_text() const {
    std::string text;
    for (const Relative& each : family()) {
      text += std::to_string(each.pid) + " " + each.command() + "\n";
    }
    return text;
  }

  // For a failed expectation.
  std::string story() const {
    return "--- stdout\n" + out() + "--- stderr\n" + err() + "--- alive\n" + family_text();
  }

 private:
  static std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    return pointers;
  }

  // Many processes write there, so each must write at its end.
  static int captured(const char* name) {
    const int file = ::memfd_create(name, MFD_CLOEXEC);
    if (file < 0 || ::fcntl(file, F_SETFL, O_APPEND) != 0) {
      throw std::runtime_error(std::string("cannot capture ") + name);
    }
    return file;
  }

  static std::string text(int file) {
    struct stat status {};
    ::fstat(file, &status);
    std::string text(static_cast<std::size_t>(status.st_size), '\0');
    const ssize_t got = ::pread(file, text.data(), text.size(), 0);
    text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return text;
  }

  std::string mark_;
  pid_t pid_ = -1;
  int status_ = -1;
  int out_ = -1;
  int err_ = -1;
};

}  // namespace starling
