#include "roster/roster.h"

#include <algorithm>

namespace starling {

std::optional<int> Roster::place_of(std::uint64_t id) const {
  const auto found = std::ranges::find(members, id, &Member::id);
  if (found == members.end()) return std::nullopt;
  return static_cast<int>(found - members.begin());
}

int Roster::workers() const {
  return static_cast<int>(std::ranges::count(members, Member::Role::worker, &Member::role));
}

bool may_decide(const Roster& roster, const std::vector<bool>& agrees,
                const std::vector<bool>& is_dead) {
  const std::size_t all = roster.members.size();
  const auto agreeing = static_cast<std::size_t>(std::ranges::count(agrees, true));
  if (2 * agreeing > all) return true;
  if (agreeing == 0) return false;
  if (2 * agreeing == all && agrees[0]) return true;
  for (std::size_t place = 0; place < all; ++place) {
    if (!agrees[place] && !is_dead[place]) return false;
  }
  return true;
}

}  // namespace starling
