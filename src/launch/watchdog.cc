#include "launch/watchdog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string_view>

#include "base/units.h"

namespace starling {

namespace {

namespace fs = std::filesystem;

// The kernel's word: the letter behind the name, which stands in brackets.
RankStatus::Process process_state(int process) {
  using Process = RankStatus::Process;
  if (process == 0) return Process::none;
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(file, line);
  const std::size_t bracket = line.rfind(") ");
  if (bracket == std::string::npos) return Process::ended;
  const char state = line[bracket + 2];
  if (state == 'T' || state == 't') return Process::stopped;
  return state == 'Z' || state == 'X' ? Process::ended : Process::runs;
}

std::string ranks_in_words(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "));
}

std::string so_long(BoardTime since, BoardTime now) {
  return format_duration(std::chrono::duration_cast<std::chrono::seconds>(now - since));
}

bool is_blocked(const RankStatus& status) {
  return status.process == RankStatus::Process::runs && !awaited_by(status).empty();
}

// Everything that changes when something moves.
std::vector<std::uint64_t> signature(const std::vector<RankStatus>& all) {
  std::vector<std::uint64_t> seen;
  for (const RankStatus& each : all) {
    seen.insert(seen.end(),
                {each.entry.steps, each.entry.moved_bytes,
                 static_cast<std::uint64_t>(each.entry.since.time_since_epoch().count()),
                 static_cast<std::uint64_t>(each.entry.process)});
  }
  return seen;
}

}  // namespace

std::vector<RankStatus> read_boards(const fs::path& job_folder) {
  std::vector<RankStatus> all;
  std::error_code ignored;  // the job may end meanwhile
  for (const fs::directory_entry& file : fs::directory_iterator(job_folder, ignored)) {
    constexpr std::string_view kPrefix = "rank-";
    const std::string name = file.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const auto entry = read_board(file.path());
    if (!entry) continue;
    const int rank = entry->process != 0 ? entry->rank : std::atoi(name.c_str() + kPrefix.size());
    all.push_back({rank, *entry, process_state(entry->process)});
  }
  std::ranges::sort(all, {}, &RankStatus::rank);
  return all;
}

std::vector<int> awaited_by(const RankStatus& status) {
  if (status.entry.state != BoardEntry::State::exchanging) return {};
  std::set<int> receives, sends;
  for (std::size_t i = 0; i < status.entry.waits; ++i) {
    const BoardEntry::Wait& wait = status.entry.wait[i];
    (wait.sends ? sends : receives).insert(wait.rank);
  }
  const std::set<int>& ranks = receives.empty() ? sends : receives;
  return {ranks.begin(), ranks.end()};
}

std::string describe_doing(const RankStatus& status, BoardTime now) {
  const BoardEntry& entry = status.entry;
  if (status.process == RankStatus::Process::none) return "has not joined yet";
  if (status.process == RankStatus::Process::ended) return "has ended";
  const std::string step = entry.counts_steps ? fmt::format("step {}", entry.steps + 1) : "";
  const auto words = [&](const char* before) { return step.empty() ? "" : before + step; };
  if (status.process == RankStatus::Process::stopped) {
    return fmt::format("is stopped{}, by a signal; it was last heard of {} ago", words(" in "),
                       so_long(entry.written, now));
  }
  switch (entry.state) {
    case BoardEntry::State::joining:
      return fmt::format("waits for the others to join (for {})", so_long(entry.since, now));
    case BoardEntry::State::serving:
      return "serves";
    case BoardEntry::State::computing:
      return fmt::format("computes{} (for {})", words(" in "), so_long(entry.since, now));
    case BoardEntry::State::exchanging:
      break;
  }
  // While it waits it gives signs of life; who computes within an exchange, to update, gives none.
  if (now - entry.written > std::chrono::seconds(3)) {
    return fmt::format("is busy within an exchange{} (for {})", words(" of "),
                       so_long(entry.written, now));
  }
  const std::vector<int> awaited = awaited_by(status);
  if (awaited.empty()) {
    return fmt::format("exchanges{} (for {})", words(" in "), so_long(entry.since, now));
  }
  const auto of_them = std::find_if(entry.wait.begin(), entry.wait.begin() + entry.waits,
                                    [&](const auto& wait) { return wait.rank == awaited.front(); });
  return fmt::format("waits for {} in {}{} (for {})", ranks_in_words(awaited),
                     of_them->operation.data(), words(" of "), so_long(entry.since, now));
}

std::string describe_culprits(const std::vector<RankStatus>& all) {
  std::map<int, const RankStatus*> by_rank;
  for (const RankStatus& each : all) by_rank[each.rank] = &each;
  std::set<int> awaited, culprits;
  for (const RankStatus& each : all) {
    if (!is_blocked(each)) continue;
    for (const int rank : awaited_by(each)) awaited.insert(rank);
  }
  bool elsewhere = false;
  for (const int rank : awaited) {
    const auto found = by_rank.find(rank);
    if (found != by_rank.end() && is_blocked(*found->second)) continue;
    elsewhere = elsewhere || found == by_rank.end();
    culprits.insert(rank);
  }
  if (awaited.empty()) return "";
  if (culprits.empty()) return "they wait for one another, all around";
  return fmt::format("{} keep{} the others waiting{}",
                     ranks_in_words({culprits.begin(), culprits.end()}),
                     culprits.size() > 1 ? "" : "s",
                     elsewhere ? "; what one on another machine does, its launcher says" : "");
}

std::vector<std::string> Watchdog::look(const std::vector<RankStatus>& all, BoardTime now) {
  if (patience_.count() == 0) return {};
  // Programs that do not use Starling have nothing to tell, and who has ended nothing to wait for.
  const bool runs = std::ranges::any_of(all, [](const RankStatus& each) {
    return each.process == RankStatus::Process::runs ||
           each.process == RankStatus::Process::stopped;
  });
  std::vector<std::uint64_t> seen = signature(all);
  if (!runs || seen != last_seen_ || !moved_) {
    last_seen_ = std::move(seen);
    const BoardTime before = moved_.value_or(now);
    moved_ = now;
    if (!std::exchange(told_, false) || !runs) return {};
    return {fmt::format("starling: it moves again, after {}", so_long(before, now))};
  }
  if (told_ || now - *moved_ < patience_) return {};
  told_ = true;
  std::vector<std::string> lines = {
      fmt::format("starling: nothing has moved for {}:", so_long(*moved_, now))};
  for (const RankStatus& each : all) {
    lines.push_back(fmt::format("  rank {} {}", each.rank, describe_doing(each, now)));
  }
  if (const std::string culprits = describe_culprits(all); !culprits.empty()) {
    lines.push_back("  " + culprits);
  }
  return lines;
}

}  // namespace starling
