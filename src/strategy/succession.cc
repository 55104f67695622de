#include "strategy/succession.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "exchange/collectives.h"
#include "exchange/long_message.h"
#include "roster/roster.h"

namespace starling {

namespace {

const Standing& newest_of(const std::vector<Standing>& standings) {
  const auto newest = std::ranges::max_element(standings, {}, &Standing::generation);
  if (newest == standings.end() || newest->generation == 0) {
    throw Error("nobody is left who was in the training", "it has ended, or was lost with them");
  }
  for (const Standing& each : standings) {
    if (each.generation != newest->generation) continue;
    if (each.workers != newest->workers || each.rank >= each.workers ||
        each.workers > kMostMembers) {
      throw Error("those who are here have not been in the same generation");
    }
  }
  return *newest;
}

}  // namespace

Succession succession(const std::vector<Standing>& standings, const Hearsay& known,
                      bool all_alike) {
  const Standing newest = newest_of(standings);
  const auto is_heir = [&](const Standing& each) { return each.generation == newest.generation; };
  std::uint64_t most = 0;
  for (const Standing& each : standings) {
    if (is_heir(each)) most = std::max(most, each.rounds);
  }
  Succession result;
  result.done.assign(newest.workers, all_alike ? most : 0);
  const int n = static_cast<int>(standings.size());
  const auto at = [&](int place) -> const Standing& {
    return standings[static_cast<std::size_t>((place % n + n) % n)];
  };
  const auto has_all = [&](const Standing& each) {
    return is_heir(each) && (!all_alike || each.rounds == most);
  };
  for (int place = 0; place < n; ++place) {
    std::optional<int>& donor = result.donors.emplace_back();
    if (is_heir(at(place)) && !all_alike) {
      const std::vector<std::uint64_t>& heard = known[static_cast<std::size_t>(place)];
      for (std::size_t worker = 0; worker < heard.size(); ++worker) {
        result.done[worker] = std::max(result.done[worker], heard[worker]);
      }
      result.done[at(place).rank] = std::max(result.done[at(place).rank], at(place).rounds);
    }
    if (has_all(at(place))) continue;
    for (int other = place - 1; !donor; --other) {  // the nearest before it on the ring
      if (has_all(at(other))) donor = (other % n + n) % n;
    }
  }
  return result;
}

Task<> tell_standings(Group workers, Channel channel, Standing own,
                      std::vector<Standing>& standings) {
  standings.assign(static_cast<std::size_t>(workers.size()), Standing{});
  standings[static_cast<std::size_t>(workers.rank())] = own;
  const Vector all(std::as_writable_bytes(std::span(standings)));
  const std::vector<Range> pieces = even_pieces(all, workers.size());
  co_await all_gather(workers, channel, all, pieces);
}

Task<> tell_hearsay(Group workers, Channel channel, const std::vector<Standing>& standings,
                    const std::vector<std::uint64_t>& own, Hearsay& known) {
  const std::size_t columns = newest_of(standings).workers;
  const auto rows = static_cast<std::size_t>(workers.size());
  std::vector<std::uint64_t> table(rows * columns);
  const auto row = [&](std::size_t place) {
    return std::span(table).subspan(place * columns, columns);
  };
  std::ranges::copy(std::span(own).first(std::min(own.size(), columns)),
                    row(static_cast<std::size_t>(workers.rank())).begin());
  const Vector all(std::as_writable_bytes(std::span(table)));
  const std::vector<Range> pieces = even_pieces(all, workers.size());
  co_await all_gather(workers, channel, all, pieces);
  known.clear();
  for (std::size_t place = 0; place < rows; ++place) {
    known.emplace_back(row(place).begin(), row(place).end());
  }
}

Task<> hand_over(Group workers, Channel channel, const Succession& succession,
                 const std::function<std::vector<std::byte>()>& mine, std::size_t most_bytes,
                 std::optional<std::vector<std::byte>>& received) {
  const std::optional<int> donor = succession.donors[static_cast<std::size_t>(workers.rank())];
  if (donor) {
    received.emplace();
    co_await receive_long(workers, *donor, channel, most_bytes, *received);
    co_return;
  }
  std::optional<std::vector<std::byte>> own;
  for (int place = 0; place < workers.size(); ++place) {
    if (succession.donors[static_cast<std::size_t>(place)] != workers.rank()) continue;
    if (!own) own = mine();
    co_await send_long(workers, place, channel, *own);
  }
}

}  // namespace starling
