#include "job/board.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace starling {

// An odd version: it is being written.
struct Board::File {
  std::atomic<std::uint32_t> version;
  BoardEntry entry;
};

namespace {

static_assert(std::is_trivially_copyable_v<BoardEntry>);

void* map(int file, int protection) {
  void* const memory =
      file < 0 ? MAP_FAILED : ::mmap(nullptr, sizeof(Board::File), protection, MAP_SHARED, file, 0);
  if (file >= 0) ::close(file);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

void BoardEntry::add_wait(int for_rank, std::string_view operation, bool sends) {
  const auto same = [&](const Wait& each) {
    return each.rank == for_rank && each.sends == sends && operation == each.operation.data();
  };
  const auto end = wait.begin() + waits;
  if (waits == kMostWaits || std::find_if(wait.begin(), end, same) != end) return;
  Wait& added = wait[waits++];
  added = {for_rank, sends, {}};
  operation.copy(added.operation.data(), added.operation.size() - 1);
}

// A worker whose board cannot be had works as well.
Board::Board(const std::filesystem::path& path, int rank) {
  if (path.empty()) return;
  file_ = static_cast<File*>(
      map(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW), PROT_READ | PROT_WRITE));
  entry_.process = ::getpid();
  entry_.rank = rank;
  enter(BoardEntry::State::joining);
}

Board::~Board() {
  if (file_ != nullptr) ::munmap(file_, sizeof(File));
}

void Board::begin_exchange() {
  if (exchanges_++ == 0) enter(BoardEntry::State::exchanging);
}

bool Board::end_exchange() {
  if (--exchanges_ > 0) return false;
  enter(BoardEntry::State::computing);
  return true;
}

void Board::serves() { enter(BoardEntry::State::serving); }

void Board::count_steps() {
  entry_.counts_steps = true;
  entry_.steps = 0;
  write(std::chrono::steady_clock::now());
}

void Board::step_done() {
  const BoardTime now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> took = now - std::exchange(step_ended_, now);
  if (entry_.steps == 1) entry_.seconds_a_step = took.count();
  if (entry_.steps > 1) entry_.seconds_a_step += 0.1 * (took.count() - entry_.seconds_a_step);
  ++entry_.steps;
  write(now);
}

void Board::enter(BoardEntry::State state) {
  if (file_ == nullptr) return;
  entry_.state = state;
  entry_.waits = 0;
  entry_.since = std::chrono::steady_clock::now();
  write(entry_.since);
}

void Board::write(BoardTime now) {
  if (file_ == nullptr) return;
  entry_.written = now;
  const std::uint32_t version = file_->version.load(std::memory_order_relaxed);
  file_->version.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  ::memcpy(static_cast<void*>(&file_->entry), &entry_, sizeof entry_);
  file_->version.store(version + 2, std::memory_order_release);
}

void make_board(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool made = file >= 0 && ::ftruncate(file, sizeof(Board::File)) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  if (!made) throw Error(fmt::format("cannot make {}: {}", path.string(), ::strerror(error)));
}

std::optional<BoardEntry> read_board(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file >= 0 && ::lseek(file, 0, SEEK_END) < static_cast<off_t>(sizeof(Board::File))) {
    ::close(file);
    return std::nullopt;
  }
  auto* const shared = static_cast<Board::File*>(map(file, PROT_READ));
  if (shared == nullptr) return std::nullopt;
  BoardEntry entry;
  // A worker that was stopped while it wrote leaves a little of both, which is as good as it gets.
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::uint32_t before = shared->version.load(std::memory_order_acquire);
    ::memcpy(static_cast<void*>(&entry), &shared->entry, sizeof entry);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && shared->version.load(std::memory_order_relaxed) == before) break;
  }
  ::munmap(shared, sizeof(Board::File));
  entry.waits = std::min<std::uint32_t>(entry.waits, BoardEntry::kMostWaits);
  for (BoardEntry::Wait& wait : entry.wait) wait.operation.back() = '\0';
  entry.state = std::min(entry.state, BoardEntry::State::serving);
  return entry;
}

}  // namespace starling
