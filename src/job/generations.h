// Generations: a job whose ranks come and go. Each generation has a Comm of its own, with links that no
// other has, so that nothing of an older one is heard in it. What outlives it (weights, progress) is
// its owner's.
//
//   Generations job(host, description, rules);
//   co_await job.begin(listener);       // with those that the launcher has started, or as a guest
//   while there is work:
//     ... exchanges over job.comm() ...
//     job.council().note_step(n);
//     when job.council().is_due(), or an exchange fails:  co_await job.next();
#pragma once

#include <memory>
#include <optional>

#include "base/error.h"
#include "job/join.h"
#include "job/roster_door.h"

namespace starling {

class Generations {
 public:
  Generations(Host& host, Job job, Council::Rules rules, Member::Role role);
  ~Generations();

  // Joins those that the launcher has started; `listener` as in join_task(). If the job names a door
  // of a generation that runs (Job::guest_of), asks to be let in there.
  Task<> begin(std::unique_ptr<Listener> listener = nullptr);
  // Leaves the Comm. The others are still answered who ask about the roster.
  void leave_comm() { member_.reset(); }
  // Leaves the Comm, and is back with another. False if the others go on without us, as we have asked
  // for, or have come to the end without us.
  Task<bool> next();

  // Whether an error is one that a later generation may do without: somebody is gone, or does not answer.
  bool can_go_on_after(const Error& error);

  bool has_comm() const { return member_.has_value(); }
  Mesh& comm();
  Council& council() { return *council_; }
  // Who is in the generation that comm() is of.
  const Roster& roster() const { return roster_; }
  int rank() const { return *roster_.place_of(id_); }

 private:
  Task<> meet_first(std::unique_ptr<Listener> listener);
  Task<> enter();
  Task<> meet(Job job, std::unique_ptr<Listener> listener);
  Task<> until_in_vain();
  Task<> until_overtaken();
  Task<> until_one_is_dead();
  std::unique_ptr<Listener> take_spare();
  Job job_of_generation() const;

  Host& host_;
  Job job_;
  Council::Rules rules_;
  Member::Role role_;
  std::uint64_t id_ = 0;
  Address place_;                    // where to listen: as others reach us
  std::unique_ptr<Listener> spare_;  // for the links of the next generation
  std::unique_ptr<RosterDoor> door_;
  std::unique_ptr<Council> council_;
  Roster roster_;
  std::optional<Membership> member_;
};

}  // namespace starling
