// Roster: who is in a generation of a job, in the order of their ranks. It does not change: a loss, a
// leave or a join ends the generation, and those who are left agree on the next (roster/council.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "runtime/host.h"

namespace starling {

inline constexpr std::size_t kMostMembers = 8192;

struct Member {
  enum class Role : std::uint64_t { worker, server };

  std::uint64_t id = 0;    // drawn by its process: one that is started again is somebody else
  Address door;            // where it is asked about the roster, for as long as it runs
  std::uint32_t port = 0;  // on the same machine, for the links of the generation
  Role role = Role::worker;

  Address links() const { return {door.ip, port}; }
  bool operator==(const Member&) const = default;
};
static_assert(sizeof(Member) == 40 && std::is_trivially_copyable_v<Member>);

struct Roster {
  std::uint64_t generation = 0;
  // The step of the generation before after which this one begins, so that none is repeated; 0: at
  // once, as not all were at work.
  std::uint64_t begins_after = 0;
  std::vector<Member> members;  // workers first

  // The rank of one, or nothing.
  std::optional<int> place_of(std::uint64_t id) const;
  bool has(std::uint64_t id) const { return place_of(id).has_value(); }
  int workers() const;
  int servers() const { return static_cast<int>(members.size()) - workers(); }
  bool operator==(const Roster&) const = default;
};

// Whether these may decide for all of a generation: more than half of it, or half of it with its
// lowest; or all who are not known to be dead. Any two such sets of a generation have somebody in
// common, unless all of the earlier set have died. A set that is only most of those who are not dead
// would not do: who has agreed to something and then died may have told somebody who is out of reach.
bool may_decide(const Roster& roster, const std::vector<bool>& agrees,
                const std::vector<bool>& is_dead);

}  // namespace starling
