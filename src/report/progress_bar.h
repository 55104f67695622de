// One line on the terminal that moves, or, where there is no terminal, a line now and then. Whoever
// shows progress has other things to do, so it never waits for a terminal or pipe that takes nothing:
// what moves is left out then, and lines that stay are kept for later, up to a limit.
#pragma once

#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace starling {

class ProgressBar {
 public:
  // On stderr, unless another file is named; without a terminal a line at the start, and then one
  // whenever `pause` has passed.
  explicit ProgressBar(std::string label, int output = STDERR_FILENO,
                       std::chrono::seconds pause = std::chrono::seconds(5));
  // Waits a moment for lines to be taken.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // share is from 0 to 1; details stand behind the bar, what matters most first: those that have no
  // room are left out. Two blanks part them.
  void show(double share, const std::string& details);
  // A line that stays, above the bar.
  void say(const std::string& line);

 private:
  void clear();
  std::size_t put(std::string_view text);  // how much of it was taken
  bool put_kept();                         // whether all was

  std::string label_;
  int output_;
  int own_;  // the same terminal or pipe, opened once more for writing without waiting; or -1
  bool terminal_;
  bool drawn_ = false;
  std::chrono::seconds pause_;
  std::optional<std::chrono::steady_clock::time_point> last_line_;  // without a terminal
  std::string kept_;
};

}  // namespace starling
