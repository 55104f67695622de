// Board: what a worker does, where its launcher and `starling status` can read it at any time: while it
// computes, when it is stopped, and when it hangs. It is memory that they share, a file in the job's
// folder, so that nobody needs to be asked and nobody to answer.
//
// The worker writes at the begin and the end of an exchange, and twice a second while it waits in one.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/names.h"

namespace starling {

// By the clock that all processes of a machine share.
using BoardTime = std::chrono::steady_clock::time_point;

struct BoardEntry {
  enum class State : std::uint8_t { joining, computing, exchanging, serving };
  friend constexpr Names<4> names_of(State) {
    return {"state", {"joining", "computing", "exchanging", "serving"}};
  }
  struct Wait {
    std::int32_t rank;  // for whom
    bool sends;         // to it, else it receives
    std::array<char, 56> operation;
  };
  static constexpr std::size_t kMostWaits = 8;

  std::int32_t process = 0;  // none yet: 0
  std::int32_t rank = 0;
  State state = State::joining;
  bool counts_steps = false;  // a program of one's own need not
  std::uint64_t steps = 0;    // that it has made
  double seconds_a_step = 0;  // of late; 0 before the second one
  std::uint64_t moved_bytes = 0;
  BoardTime since = {};    // in this state, or nothing has come in this exchange
  BoardTime written = {};  // when it last gave a sign of life
  std::uint32_t waits = 0;
  std::array<Wait, kMostWaits> wait = {};

  void add_wait(int for_rank, std::string_view operation, bool sends);
};

// The worker's side.
class Board {
 public:
  // Without a path there is nobody to read.
  Board(const std::filesystem::path& path, int rank);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // Of exchanges several may be under way: it computes when none is.
  void begin_exchange();
  bool end_exchange();  // whether it computes now
  void serves();
  void count_steps();
  void step_done();
  // A sign of life. `look` adds what it waits for.
  template <class Look>
  void refresh(std::uint64_t moved_bytes, const Look& look) {
    if (file_ == nullptr) return;
    const BoardTime now = std::chrono::steady_clock::now();
    if (std::exchange(entry_.moved_bytes, moved_bytes) != moved_bytes) entry_.since = now;
    entry_.waits = 0;
    look(entry_);
    write(now);
  }

  struct File;

 private:
  void enter(BoardEntry::State state);
  void write(BoardTime now);

  File* file_ = nullptr;
  BoardEntry entry_;
  int exchanges_ = 0;
  BoardTime step_ended_ = {};
};

// The launcher's: makes an empty one that this user alone can read.
void make_board(const std::filesystem::path& path);
// What was last written; nothing if there is no board.
std::optional<BoardEntry> read_board(const std::filesystem::path& path);

}  // namespace starling
