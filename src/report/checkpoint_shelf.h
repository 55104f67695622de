// The launcher's part in checkpoints (job/checkpoint.h): it hears of every file that a rank has written,
// says which of them are one checkpoint, and keeps the last few.
//
//   in step     when all ranks have written their state after the same step
//   otherwise   when all who are left have written theirs since the last one: each has its own progress
//
// Where ranks come and go, these are the ranks of the newest generation, and only those that this launcher
// has started: who has come by `starling join` has another one, and writes nothing. What was written in a
// generation before is no part of a checkpoint any more.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "job/checkpoint.h"

namespace starling {

class CheckpointShelf {
 public:
  struct Options {
    std::filesystem::path folder;
    int workers = 1, servers = 0;  // of the run
    std::vector<int> ranks;        // whose files come here: those of this machine, as it began
    bool in_step = true;
    int keep = 3;
    int machine = 0, machines = 1;
    std::uint64_t resumed = 0;  // the number of the checkpoint that the run goes on from; 0: none
  };
  // What was left half-written, or is of steps that the run now does once more, goes.
  explicit CheckpointShelf(Options options);

  // Whoever the launcher has started as that rank tells which it is now, and of how many.
  void take_generation(int launched, const nlohmann::json& event);
  // A rank has written a file. Returns what to say, if anything: that there is no checkpoint, and why;
  // once, until there is one again.
  std::string take(const nlohmann::json& event);
  // Whoever was started as that rank is lost. In step that changes nothing before the next generation.
  void leave(int launched);

 private:
  void complete(std::uint64_t number, const std::map<int, StateFile>& files);
  std::set<int> here() const;
  bool may_go(const StateFile& file) const;
  void clear_up();

  Options options_;
  std::map<std::uint64_t, std::map<int, StateFile>> at_step_;  // in step: not complete yet
  std::map<int, StateFile> newest_;                            // otherwise: of each rank,
  std::set<int> is_new_;                                       // and whose came since the last
  struct Place {
    std::uint64_t generation;
    int rank;  // in it
  };
  std::map<int, Place> places_;  // of those who are left, by the ranks that they were started as
  std::uint64_t generation_ = 1;
  std::uint64_t last_ = 0;  // number
  bool begun_ = false;      // there is one of this run: before that nobody writes
  bool failed_ = false;     // to keep the last one
};

// The newest checkpoint of a run that is whole: its manifest. `say` gets a line for each that is not,
// and is passed over.
std::optional<std::filesystem::path> newest_checkpoint(
    const std::filesystem::path& folder, const std::function<void(const std::string&)>& say);

}  // namespace starling
