#include "strategy/estate.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace starling {

namespace {

// Progress has the first channel of a group.
constexpr Channel kStandings{1, Purpose::control, "taking over from the last generation"};
constexpr Channel kStates{2, Purpose::weights, "taking over from the last generation"};
constexpr std::uint64_t kTellings = 100;  // of a worker in a generation that does all that is left

// The ledger behind its length, and the rest.
std::vector<std::byte> bequest(const BatchLedger& ledger, const Estate::State& state) {
  const std::vector<std::uint64_t> numbers = ledger.numbers();
  std::uint64_t count = numbers.size();
  std::vector<std::byte> bytes;
  const auto append = [&](ConstBytes more) { bytes.insert(bytes.end(), more.begin(), more.end()); };
  append(object_bytes(count));
  append(std::as_bytes(std::span(numbers)));
  append(state.save());
  return bytes;
}

BatchLedger accept(ConstBytes bytes, const Estate::State& state) {
  const auto take = [&](Bytes place) {
    if (bytes.size() < place.size()) throw Error("what another worker handed over was cut short");
    std::memcpy(place.data(), bytes.data(), place.size());
    bytes = bytes.subspan(place.size());
  };
  std::uint64_t count = 0;
  take(object_bytes(count));
  std::vector<std::uint64_t> numbers(std::min<std::uint64_t>(count, bytes.size()));
  take(std::as_writable_bytes(std::span(numbers)));
  BatchLedger ledger = BatchLedger::of(numbers);
  state.restore(bytes);
  return ledger;
}

}  // namespace

void Estate::begin(Group workers) { settle(workers, 1); }

void Estate::settle(Group workers, std::uint64_t generation) {
  generation_ = generation;
  place_ = workers.rank();
  places_ = workers.size();
  taken_ = done_ = 0;
  const std::uint64_t stride = batches() / static_cast<std::uint64_t>(places_) / kTellings;
  progress_.emplace(workers, 0, std::max<std::uint64_t>(1, stride));
}

Task<> Estate::part(const Roster& now, const Roster& next) {
  if (!progress_ || all_are_alike_ || next.begins_after == 0) co_return;
  std::vector<int> leaving;
  for (int place = 0; place < places_; ++place) {
    if (!next.has(now.members[static_cast<std::size_t>(place)].id)) leaving.push_back(place);
  }
  if (std::ranges::count(leaving, place_) > 0) {
    progress_->end();
    co_await progress_->settle();
    co_return;
  }
  for (const int place : leaving) {
    while (!progress_->has_left(place)) co_await progress_->news().rung();
  }
}

void Estate::close() {
  if (!progress_) return;
  heard_ = progress_->done();
  progress_.reset();
}

void Estate::did() {
  done_ = taken_;
  if (progress_) progress_->did(done_);
}

// If the new generation does not come to it, this was for nothing, and nothing has changed.
Task<> Estate::take_over(Group workers, std::uint64_t generation, const State& state) {
  std::vector<Standing> standings;
  const Standing own{generation_, done_, static_cast<std::uint32_t>(place_),
                     static_cast<std::uint32_t>(places_)};
  co_await tell_standings(workers, kStandings, own, standings);
  const bool is_heir =
      generation_ == std::ranges::max(standings, {}, &Standing::generation).generation;
  Hearsay known;
  const std::vector<std::uint64_t> heard = is_heir ? heard_ : std::vector<std::uint64_t>();
  co_await tell_hearsay(workers, kStandings, standings, heard, known);
  const Succession next = succession(standings, known, all_are_alike_);
  BatchLedger ledger = ledger_;
  if (is_heir) ledger.strike_out(next.done);
  std::optional<std::vector<std::byte>> received;
  const auto mine = [&] { return bequest(ledger, state); };
  co_await hand_over(workers, kStates, next, mine, state.most_bytes, received);
  if (received) ledger = accept(*received, state);
  ledger_ = ledger;
  settle(workers, generation);
}

std::uint64_t Estate::batches() const {
  const auto n = static_cast<std::uint64_t>(places_);
  return (ledger_.left() + n - 1) / n * n;
}

}  // namespace starling
