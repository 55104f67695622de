#include "mixing/deputies.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace starling {

bool Deputies::read(const Letter& letter, Letters& letters) {
  const auto from = static_cast<std::size_t>(letter.from);
  if (letter.header.kind == kMasterIs) {
    if (letter.header.clock >= heard_.size()) {
      throw Error(fmt::format("rank {} has rank {} for a master", letter.from, letter.header.clock),
                  "all workers must run the same program with the same settings");
    }
    const auto theirs = static_cast<int>(letter.header.clock);
    if (!has_master() && !group_.is_lost(theirs)) follow(theirs);
    return true;
  }
  const bool of_the_same_master = letter.header.weight == static_cast<float>(master_);
  if (of_the_same_master || !has_master()) {
    heard_[from] = letter.header.clock;
    // It had chosen one who is no more, and begins anew.
    if (!of_the_same_master) told_[from] = false;
    return true;
  }
  if (!letters.can_send(letter.from)) return group_.is_lost(letter.from);
  LetterHeader header;
  header.kind = kMasterIs;
  header.clock = static_cast<std::uint64_t>(master_);
  letters.send(letter.from, header, std::make_shared<Sheet>(group_, 0));
  return true;
}

void Deputies::attend(std::uint64_t meetings, Letters& letters) {
  if (has_master()) return;
  int next = group_.rank();
  std::uint64_t most = meetings;
  bool all_known = true;
  for (int rank = 0; rank < group_.size(); ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    if (rank == group_.rank() || group_.is_lost(rank)) continue;
    if (!told_[place] && letters.can_send(rank)) {
      LetterHeader header;
      header.kind = kStanding;
      header.weight = static_cast<float>(master_);
      header.clock = meetings;
      letters.send(rank, header, std::make_shared<Sheet>(group_, 0));
      told_[place] = true;
    }
    all_known = all_known && told_[place] && heard_[place];
    if (!heard_[place]) continue;
    if (*heard_[place] > most || (*heard_[place] == most && rank < next)) next = rank;
    most = std::max(most, *heard_[place]);
  }
  if (all_known) follow(next);
}

void Deputies::follow(int master) {
  spdlog::info("rank {}, which kept the master's model, was lost; rank {} takes over",
               group_.in_comm(master_), group_.in_comm(master));
  master_ = master;
  told_.assign(told_.size(), false);
  heard_.assign(heard_.size(), std::nullopt);
}

}  // namespace starling
