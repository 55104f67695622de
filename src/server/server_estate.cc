#include "server/server_estate.h"

#include <algorithm>

#include "base/error.h"
#include "exchange/collectives.h"
#include "exchange/long_message.h"
#include "runtime/all.h"

namespace starling {

namespace {

constexpr Channel kClaims{0, Purpose::control, "telling which blocks it has kept"};
constexpr Channel kBlocks{1, Purpose::weights, "handing over the blocks of servers"};
constexpr std::size_t kMostBytes = std::size_t{1} << 40;  // a newcomer knows no model

// What each says of what it has.
struct Claim {
  std::uint64_t generation = 0;          // in which it had it; 0: it has nothing
  std::uint32_t place = 0, servers = 0;  // who it was then, of how many
};

bool all_stay(const std::vector<Claim>& claims, int servers) {
  const std::uint64_t latest = std::ranges::max(claims, {}, &Claim::generation).generation;
  for (std::size_t place = 0; place < static_cast<std::size_t>(servers); ++place) {
    const Claim& claim = claims[place];
    if (claim.generation != latest || claim.place != place ||
        claim.servers != static_cast<std::uint32_t>(servers)) {
      return false;
    }
  }
  return true;
}

Task<> receive_blocks(Group group, int from, const Claim& claim, KeptBlocks& into) {
  std::vector<std::byte> bytes;
  co_await receive_long(group, from, kBlocks, kMostBytes, bytes);
  into = {claim.generation, decode_snapshot(bytes)};
}

}  // namespace

Task<> ServerEstate::take_over(Group holders, int servers, std::uint64_t generation) {
  const auto n = static_cast<std::size_t>(holders.size());
  const auto own = static_cast<std::size_t>(holders.rank());
  std::vector<std::byte> mine;
  if (kept_.generation > 0) mine = encode(kept_.blocks);
  std::vector<Claim> claims(n);
  claims[own] = {kept_.generation, static_cast<std::uint32_t>(place_),
                 static_cast<std::uint32_t>(servers_)};
  const Vector all_claims(std::as_writable_bytes(std::span(claims)));
  const std::vector<Range> pieces = even_pieces(all_claims, holders.size());
  co_await all_gather(holders, kClaims, all_claims, pieces);

  if (!all_stay(claims, servers)) {
    std::vector<KeptBlocks> everybodys(n);
    std::vector<Task<>> exchanges;
    for (int other = 0; other < holders.size(); ++other) {
      const auto place = static_cast<std::size_t>(other);
      if (place == own) continue;
      if (other < servers && !mine.empty())
        exchanges.push_back(send_long(holders, other, kBlocks, mine));
      if (holders.rank() < servers && claims[place].generation > 0) {
        exchanges.push_back(receive_blocks(holders, other, claims[place], everybodys[place]));
      }
    }
    co_await all(std::move(exchanges));
    if (holders.rank() < servers) {
      everybodys[own] = std::move(kept_);
      kept_ = {std::ranges::max(claims, {}, &Claim::generation).generation,
               newest_blocks(everybodys)};
    }
  }
  generation_ = generation;
  place_ = holders.rank();
  servers_ = servers;
  past_ = {};
  past_.partial = true;
  for (const auto& [name, part] : kept_.blocks.parts) past_.parts["blocks/" + name] = part;
  State::saving(past_)("report", report_);
}

// Workers fetch everything before they push, and are answered when all copies are complete. As long as
// one is not, nobody has been told of anything that is newer than what was taken over.
void ServerEstate::keep(Server& server) {
  const bool took_over = kept_.generation > 0;
  if (!server.has_weights() || (took_over && !server.has_all_copies())) return;
  Snapshot all;
  server.visit_blocks(State::saving(all));
  kept_ = {generation_, {}};
  past_ = {};
  report_ = server.report();
  for (auto& [name, part] : all.under("blocks/").parts) {
    // The rest is of workers that may be gone.
    if (part.shared || name.ends_with("/version")) kept_.blocks.parts[name] = std::move(part);
  }
}

}  // namespace starling
