#include "launch/store_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace starling {

namespace {

constexpr std::chrono::seconds kKeepAliveEvery = kLeaseTime / 3;
constexpr std::chrono::seconds kTryAgainAfter{1};
constexpr int kMostSwaps = 16;  // that fail, one after the other, since somebody else was faster

}  // namespace

StoreKeeper::StoreKeeper(RosterStore store, std::uint64_t start,
                         std::function<void(std::string)> say)
    : store_(std::move(store)), say_(std::move(say)), start_(start), thread_([this] { run(); }) {}

StoreKeeper::~StoreKeeper() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

template <class Change>
void StoreKeeper::change(const Change& make) {
  {
    const std::lock_guard lock(mutex_);
    make(wanted_);
    is_new_ = true;
  }
  changed_.notify_one();
}

void StoreKeeper::set_doors(std::vector<std::string> doors) {
  change([&](Wanted& wanted) { wanted.doors = {doors.begin(), doors.end()}; });
}
void StoreKeeper::set_roster(std::uint64_t generation, std::vector<std::string> doors) {
  change([&](Wanted& wanted) {
    if (generation <= wanted.generation) return;
    wanted.generation = generation;
    wanted.roster = std::move(doors);
  });
}
void StoreKeeper::end() {
  change([](Wanted& wanted) { wanted.ended = true; });
}

void StoreKeeper::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const Wanted wanted = wanted_;
    const bool is_last = over_;
    is_new_ = false;
    lock.unlock();
    try_to([&] { bring_up_to_date(wanted); });
    if (is_last && !is_away_ && lease_ != 0) {
      try_to([this] { store_.revoke(lease_); });
    }
    lock.lock();
    if (is_last) return;
    const auto pause = is_away_ ? kTryAgainAfter : kKeepAliveEvery;
    changed_.wait_for(lock, pause, [this] { return over_ || (is_new_ && !is_away_); });
  }
}

void StoreKeeper::try_to(const std::function<void()>& action) {
  try {
    action();
    if (std::exchange(is_away_, false)) say_(fmt::format("note: {} is back", store_.url()));
  } catch (const std::exception& error) {
    if (std::exchange(is_away_, true)) return;
    say_(fmt::format("note: {}; the training goes on, and what changes is kept when it is back",
                     error.what()));
  }
}

// A lease that has ended has taken its doors along, and with it the store may have lost all that it had.
void StoreKeeper::bring_up_to_date(const Wanted& wanted) {
  if (lease_ != 0 && !store_.keep_alive(lease_)) lease_ = 0;
  if (lease_ == 0) {
    lease_ = store_.grant();
    put_.clear();
    written_ = {};
  }
  for (const std::string& door : wanted.doors) {
    if (put_.contains(door)) continue;
    store_.put_door(door, lease_);
    put_.insert(door);
  }
  while (true) {
    const auto gone = std::ranges::find_if(
        put_, [&](const std::string& door) { return !wanted.doors.contains(door); });
    if (gone == put_.end()) break;
    store_.remove_door(*gone);
    put_.erase(gone);
  }
  if (wanted.generation != written_.generation || wanted.ended != written_.ended) {
    write_job(wanted);
    written_ = wanted;
  }
}

void StoreKeeper::write_job(const Wanted& wanted) {
  for (int i = 0; i < kMostSwaps; ++i) {
    const auto [kept, revision] = store_.read();
    if (start_ == 0) start_ = std::max<std::uint64_t>(kept.start, 1);
    if (kept.start > start_) return;  // it was started anew, without us
    KeptJob job{start_, 0, {}, run_, false};
    if (kept.start == start_) job = kept;
    run_ = job.run;
    if (wanted.generation > job.generation) {
      job.generation = wanted.generation;
      job.doors = wanted.roster;
    }
    job.ended = job.ended || wanted.ended;
    if (job == kept || store_.write(job, revision)) return;
  }
  throw Error(fmt::format("the store {}: others write all the time", store_.url()));
}

}  // namespace starling
