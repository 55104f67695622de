#include "strategy/checkpoint_pact.h"

#include <algorithm>
#include <utility>

#include "exchange/collectives.h"

namespace starling {

namespace {
constexpr Channel kPactChannel{5, Purpose::control, "agreeing on a checkpoint"};
constexpr Time kMostBetweenMeetings = std::chrono::seconds(2);
constexpr std::uint64_t kMostRoundsBetween = 1'000'000;
}  // namespace

void CheckpointPact::begin(std::uint64_t round) {
  met_round_ = kept_round_ = round;
  next_round_ = round + 1;
}

bool CheckpointPact::meets_after(std::uint64_t round) const {
  if (goes_by_time()) return round >= next_round_;
  return round / interval_.steps > kept_round_ / interval_.steps;
}

Task<> CheckpointPact::meet(Group group, std::uint64_t round, bool is_to_stop) {
  is_due_ = true;
  if (!goes_by_time()) co_return;
  const Time now = group.comm().loop().now(), met_before = std::exchange(met_, now);
  std::int64_t stops = is_to_stop ? 1 : 0;
  const Vector count = std::span(&stops, 1);
  co_await reduce(group, kPactChannel, count, Reduction::sum, 0);
  Word word{};
  if (group.rank() == 0) {
    const auto rounds = static_cast<Time::rep>(std::max<std::uint64_t>(round - met_round_, 1));
    word = decide(round, (now - met_before) / rounds, stops > 0);
  }
  co_await broadcast(group, kPactChannel, object_bytes(word), 0);
  met_round_ = round;
  next_round_ = word.next_round;
  is_due_ = word.is_due != 0;
  all_stop_ = word.stop != 0;
}

CheckpointPact::Word CheckpointPact::decide(std::uint64_t round, Time round_takes,
                                            bool stop) const {
  const Time since = met_ - kept_;
  const bool due = stop || since >= interval_.time;
  const Time wait = due ? interval_.time : interval_.time - since;
  const Time next = std::min({wait, interval_.time / 4, kMostBetweenMeetings});
  const auto rounds = static_cast<std::uint64_t>(next / std::max(Time(1), round_takes));
  return {due ? 1u : 0u, round + std::clamp<std::uint64_t>(rounds, 1, kMostRoundsBetween),
          stop ? 1u : 0u};
}

void CheckpointPact::keep(std::uint64_t round, Time now) {
  kept_round_ = round;
  kept_ = now;
}

}  // namespace starling
