// Who waits for whom: what a job's boards tell together, and the watchdog that says so when nothing
// moves any more.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "job/board.h"

namespace starling {

// One process of a job, as its board and the kernel have it.
struct RankStatus {
  int rank;
  BoardEntry entry;  // its process is 0 before it has joined
  enum class Process : std::uint8_t { none, runs, stopped, ended } process;
};
// Of all boards in a job's folder, by rank.
std::vector<RankStatus> read_boards(const std::filesystem::path& job_folder);

// Whom it waits for: first to receive, else to send.
std::vector<int> awaited_by(const RankStatus& status);

// What it does, as a clause: "waits for rank 0 in a ring all-reduce of step 118 (for 21 s)".
std::string describe_doing(const RankStatus& status, BoardTime now);
// Who keeps the others waiting and waits for nobody itself: "rank 0 keeps the others waiting". Empty if
// nobody waits.
std::string describe_culprits(const std::vector<RankStatus>& all);

class Watchdog {
 public:
  // A patience of nothing never ends.
  explicit Watchdog(std::chrono::nanoseconds patience) : patience_(patience) {}

  // What there is to print: once when nothing has moved for so long, and once when it moves again.
  std::vector<std::string> look(const std::vector<RankStatus>& all, BoardTime now);

 private:
  std::chrono::nanoseconds patience_;
  std::vector<std::uint64_t> last_seen_;
  std::optional<BoardTime> moved_;
  bool told_ = false;
};

}  // namespace starling
