// StoreKeeper: keeps the store (launch/roster_store.h) as a running job is, from a thread of its own, so
// that neither workers nor the launcher ever wait for it.
//
//   A. Each launcher puts the doors of its workers there, under a lease that it keeps alive: they go ten
//      seconds after it.
//   B. The launcher of a generation's lowest rank writes the roster, once they have met, in place of an
//      earlier one only. It compares and swaps: of two sides that both went on, one writes.
//   C. When the training has come to its end, whoever sees that says so.
//
// If the store is away that is said once, the training goes on, and what was to be written is when it is
// back.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "launch/roster_store.h"

namespace starling {

class StoreKeeper {
 public:
  // `start` as in KeptJob; 0: whichever is there. `say` gets lines for people, in the keeper's thread.
  StoreKeeper(RosterStore store, std::uint64_t start, std::function<void(std::string)> say);
  // Writes what is left to be written, if the store is there, and gives back its lease.
  ~StoreKeeper();
  StoreKeeper(const StoreKeeper&) = delete;
  StoreKeeper& operator=(const StoreKeeper&) = delete;

  void set_doors(std::vector<std::string> doors);
  void set_roster(std::uint64_t generation, std::vector<std::string> doors);
  void end();

 private:
  struct Wanted {
    std::set<std::string> doors;
    std::uint64_t generation = 0;
    std::vector<std::string> roster;
    bool ended = false;
  };
  template <class Change>
  void change(const Change& make);
  void run();
  void bring_up_to_date(const Wanted& wanted);
  void write_job(const Wanted& wanted);
  // If the store is away, says so once, and once more when it is back.
  void try_to(const std::function<void()>& action);

  RosterStore store_;
  std::function<void(std::string)> say_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Wanted wanted_;
  bool is_new_ = false;
  bool over_ = false;

  // The thread's own.
  std::uint64_t start_;
  std::int64_t lease_ = 0;
  std::set<std::string> put_;  // doors, under that lease
  Wanted written_;             // of the job
  std::string run_;
  bool is_away_ = false;
  std::thread thread_;  // the last to be made
};

}  // namespace starling
