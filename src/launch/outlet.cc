#include "launch/outlet.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/write.hpp>
#include <cerrno>
#include <utility>

namespace starling {

namespace {

constexpr std::size_t kLongestLine = 64 << 10;

// O_NONBLOCK belongs to an open file, which others share, so it takes one of our own. A plain file
// keeps nobody waiting.
int open_again(int output) {
  struct stat status {};
  if (::fstat(output, &status) != 0) return -1;
  if (!S_ISFIFO(status.st_mode) && ::isatty(output) == 0) return -1;
  return ::open(fmt::format("/proc/self/fd/{}", output).c_str(),
                O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

}  // namespace

Outlet::Outlet(asio::io_context& io, int output) : output_(output) {
  const int own = open_again(output);
  if (own >= 0) own_.emplace(io, own);
}

void Outlet::put(std::string_view text) {
  if (own_) {
    kept_ += text;
    if (writing_.empty()) write_kept();
    return;
  }
  while (!text.empty()) {
    const ssize_t written = ::write(output_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody will ever take it
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// What is being written must stay where it is, so what comes meanwhile is kept beside it.
void Outlet::write_kept() {
  std::swap(writing_, kept_);
  if (writing_.empty()) {
    for (const auto& action : std::exchange(waiting_, {})) action();
    return;
  }
  asio::async_write(*own_, asio::buffer(writing_),
                    [this](const asio::error_code& error, std::size_t) {
                      writing_.clear();
                      if (error) kept_.clear();  // nobody will ever take it
                      write_kept();
                    });
}

PrefixedLines::PrefixedLines(int rank) : prefix_(fmt::format("[{}] ", rank)) {}

std::string PrefixedLines::take(std::string_view piece) {
  std::string lines;
  half_ += piece;
  std::size_t begin = 0;
  for (auto end = half_.find('\n'); end != std::string::npos; end = half_.find('\n', begin)) {
    lines += prefixed(std::string_view(half_).substr(begin, end - begin));
    begin = end + 1;
  }
  half_.erase(0, begin);
  if (half_.size() >= kLongestLine) lines += rest();
  return lines;
}

std::string PrefixedLines::rest() {
  const std::string half = std::exchange(half_, "");
  return half.empty() ? "" : prefixed(half);
}

std::string PrefixedLines::prefixed(std::string_view line) {
  if (line.find_first_not_of(" \t\r") != std::string_view::npos) last_ = line;
  return fmt::format("{}{}\n", prefix_, line);
}

}  // namespace starling
