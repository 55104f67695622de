// Deputies: who keeps the master's model when the master is lost. Every answer of the master tells a
// worker its model and the number of the meeting, so whoever was answered last has all that was ever
// answered to those who are left, and takes over:
//
//   A. Who sees that the master is lost tells all others of how many meetings it knows.
//   B. Who has heard that from all who are left knows the next one: who knows of most, the lowest of
//      equals.
//   C. Who is told so and has another master that is well says who it is: some may not have heard of
//      one who was lost meanwhile. Who is asked as the master, and knows of none, is it.
//
// That costs no byte as long as nobody is lost, and every worker the memory of a model.
#pragma once

#include <optional>
#include <vector>

#include "mixing/letters.h"

namespace starling {

class Deputies {
 public:
  static constexpr std::uint32_t kStanding = 2, kMasterIs = 3;  // kinds of letters

  Deputies(Group group, int master)
      : group_(group),
        master_(master),
        told_(static_cast<std::size_t>(group.size())),
        heard_(static_cast<std::size_t>(group.size())) {}

  int master() const { return master_; }
  bool is_master() const { return master_ == group_.rank(); }
  bool has_master() const { return !group_.is_lost(master_); }

  // Somebody has us for the master.
  void was_asked() {
    if (!has_master()) follow(group_.rank());
  }
  // Takes in a letter of one of our kinds; false: not now.
  bool read(const Letter& letter, Letters& letters);
  // Sees whether there is a master, and to it that there will be. We know of so many meetings.
  void attend(std::uint64_t meetings, Letters& letters);

 private:
  void follow(int master);

  Group group_;
  int master_;
  std::vector<bool> told_;
  std::vector<std::optional<std::uint64_t>> heard_;
};

}  // namespace starling
