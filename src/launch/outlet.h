// Outlet: where the launcher puts its workers' lines, its own stdout or stderr. It never waits for a
// terminal or pipe that takes nothing: what is not taken is kept, and whoever reads more meanwhile
// can tell by busy() that it should not.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace starling {

class Outlet {
 public:
  Outlet(asio::io_context& io, int output);

  void put(std::string_view text);
  bool busy() const { return !writing_.empty(); }
  // Once all that was kept is taken.
  void when_idle(std::function<void()> action) { waiting_.push_back(std::move(action)); }

 private:
  void write_kept();

  int output_;
  std::optional<asio::posix::stream_descriptor> own_;  // none: one that keeps nobody waiting
  std::string writing_, kept_;
  std::vector<std::function<void()>> waiting_;
};

// The lines of one stream of a worker, each behind "[rank] ". Half a line waits for its other half,
// up to a limit.
class PrefixedLines {
 public:
  explicit PrefixedLines(int rank);

  // Those that are complete with this piece.
  std::string take(std::string_view piece);
  // What is left at its end.
  std::string rest();
  // The last one that says something.
  const std::string& last() const { return last_; }

 private:
  std::string prefixed(std::string_view line);

  std::string prefix_;
  std::string half_;
  std::string last_;
};

}  // namespace starling
