#include "report/progress_bar.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace starling {

namespace {

constexpr std::size_t kMostKept = 64 << 10;
constexpr int kLastWaitMs = 2000;

std::size_t terminal_columns(int output) {
  winsize size{};
  if (::ioctl(output, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

// O_NONBLOCK belongs to an open file, which others share, the shell among them; so it takes one of
// our own. A plain file never keeps anybody waiting, and another opening would write at its start.
int open_again(int output) {
  struct stat status {};
  if (::fstat(output, &status) != 0) return -1;
  if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)) return -1;
  return ::open(fmt::format("/proc/self/fd/{}", output).c_str(),
                O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

// As many whole details as there is room for.
std::string fitting(const std::string& line, std::size_t columns) {
  if (line.size() <= columns) return line;
  const std::size_t end = line.rfind("  ", columns);
  return line.substr(0, end == std::string::npos ? columns : std::min(end, columns));
}

}  // namespace

ProgressBar::ProgressBar(std::string label, int output, std::chrono::seconds pause)
    : label_(std::move(label)),
      output_(output),
      own_(open_again(output)),
      terminal_(::isatty(output) != 0),
      pause_(pause) {}

ProgressBar::~ProgressBar() {
  clear();
  if (!put_kept()) {
    pollfd ready{own_, POLLOUT, 0};
    ::poll(&ready, 1, kLastWaitMs);
    put_kept();
  }
  if (own_ >= 0) ::close(own_);
}

void ProgressBar::show(double share, const std::string& details) {
  if (!terminal_) {
    const auto now = std::chrono::steady_clock::now();
    if (last_line_ && now - *last_line_ < pause_) return;
    last_line_ = now;
    say(fmt::format("{} {:.0f}%  {}", label_, share * 100, details));
    return;
  }
  if (!put_kept()) return;
  constexpr std::size_t kBar = 10;
  const auto filled = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * kBar + 0.5);
  const std::string line = fmt::format("{} [{}{}] {:3.0f}%  {}", label_, std::string(filled, '#'),
                                       std::string(kBar - filled, '.'), share * 100, details);
  drawn_ |= put("\r\x1b[2K" + fitting(line, terminal_columns(output_) - 1)) > 0;
}

void ProgressBar::say(const std::string& line) {
  clear();
  if (kept_.size() < kMostKept) kept_ += line + "\n";
  put_kept();
}

void ProgressBar::clear() {
  if (drawn_) put("\r\x1b[2K");
  drawn_ = false;
}

bool ProgressBar::put_kept() {
  kept_.erase(0, put(kept_));
  return kept_.empty();
}

std::size_t ProgressBar::put(std::string_view text) {
  std::size_t taken = 0;
  while (taken < text.size()) {
    // Up to PIPE_BUF bytes, a pipe takes all or nothing.
    const std::string_view piece = text.substr(taken, PIPE_BUF);
    ssize_t written = own_ >= 0 ? ::write(own_, piece.data(), piece.size())
                                : ::send(output_, piece.data(), piece.size(), MSG_DONTWAIT);
    if (written < 0 && errno == ENOTSOCK) written = ::write(output_, piece.data(), piece.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno == EAGAIN ? taken : text.size();  // nobody will ever take it
    taken += static_cast<std::size_t>(written);
  }
  return taken;
}

}  // namespace starling
