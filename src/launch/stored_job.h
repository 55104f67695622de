// A job by what the store has of it (launch/roster_store.h): to join it, or to start it once more.
#pragma once

#include <optional>
#include <string>

#include "job/job.h"
#include "launch/roster_store.h"
#include "roster/message.h"

namespace starling {

// A member that answers, and what it said.
struct FoundMember {
  std::string door;
  Message answer;
};

// Asks members that the store knows to describe the job (job/ask_member.h), until one does. Throws Error
// if none does.
FoundMember find_member(RosterStore& store, const Job& job);

// What is left of a job of which nobody is there any more, whose leases are waited for. Throws Error if it
// runs: two of it would be two trainings.
RosterStore::Found find_remains(RosterStore& store, const Job& job);

// Enters it as started once more; returns as which start. Throws Error if somebody else has done so since
// it was found.
std::uint64_t enter_start(RosterStore& store, const RosterStore::Found& found,
                          const std::string& run);

}  // namespace starling
