#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace starling {

namespace {

std::size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::show(double share, const std::string& details) {
  if (!terminal_) return;
  constexpr std::size_t kBar = 20;
  const auto filled = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * kBar + 0.5);
  std::string line = fmt::format("{} [{}{}] {:3.0f}%  {}", label_, std::string(filled, '#'),
                                 std::string(kBar - filled, '.'), share * 100, details);
  line.resize(std::min(line.size(), terminal_columns() - 1));
  fmt::print(stderr, "\r\x1b[2K{}", line);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::say(const std::string& line) {
  clear();
  fmt::print(stderr, "{}\n", line);
}

void ProgressBar::clear() {
  if (drawn_) fmt::print(stderr, "\r\x1b[2K");
  drawn_ = false;
}

}  // namespace starling
