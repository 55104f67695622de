#include "sim/faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

#include "base/random.h"

namespace starling {

namespace {
bool is_among(const std::vector<int>& ranks, int rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}
}  // namespace

bool Faults::Partition::cuts(int sender, int receiver) const {
  const auto is_other = [this](int rank) {
    return others.empty() ? !is_among(ranks, rank) : is_among(others, rank);
  };
  const bool out = is_among(ranks, sender) && is_other(receiver);
  const bool in = is_other(sender) && is_among(ranks, receiver);
  return (out && way != Way::in) || (in && way != Way::out);
}

Time Faults::delay(int sender, int receiver, Time now) const {
  Time sum{0};
  for (const Delay& each : delays) {
    if (each.sender == sender && each.receiver == receiver && each.holds(now)) sum += each.by;
  }
  return sum;
}

double Faults::bytes_per_second(int sender, int receiver, Time now) const {
  double least = std::numeric_limits<double>::infinity();
  for (const SlowLink& each : slow_links) {
    if (each.sender == sender && each.receiver == receiver && each.holds(now)) {
      least = std::min(least, each.bytes_per_second);
    }
  }
  return least;
}

Time Faults::computing(int rank, Time now, Time work) const {
  double factor = 1;
  for (const SlowWorker& each : slow_workers) {
    if (each.rank == rank && each.holds(now)) factor *= each.factor;
  }
  return Time(std::llround(static_cast<double>(work.count()) * factor));
}

Time Faults::last() const {
  Time last{0};
  for (const auto* moments : {&crashes, &failures, &leaves, &restarts}) {
    for (const Moment& each : *moments) last = std::max(last, each.at);
  }
  const auto note = [&last](const auto& periods) {
    for (const auto& each : periods) last = std::max(last, each.until);
  };
  note(pauses);
  note(partitions);
  note(delays);
  note(slow_links);
  note(slow_workers);
  return last;
}

// ---- drawing ----

namespace {

class Draw {
 public:
  Draw(std::uint64_t seed, int n, Time duration, const std::set<FaultKind>& kinds)
      : random_{seed, 0xfa}, n_(n), duration_(duration), kinds_(kinds) {
    faults_.seed = seed;
  }

  Faults faults() {
    const std::vector<FaultKind> all(kinds_.begin(), kinds_.end());
    // One is what most bugs need, and what is understood soonest; a storm finds the others.
    const std::uint64_t count = std::array{0, 1, 1, 1, 2, 2, 3, 5, 8}[random_.below(9)];
    for (std::uint64_t i = 0; i < count && !all.empty(); ++i) {
      add(all[random_.below(all.size())]);
    }
    return std::move(faults_);
  }

 private:
  int rank() { return static_cast<int>(random_.below(static_cast<std::uint64_t>(n_))); }
  int other_than(int rank) {
    return (rank + 1 + static_cast<int>(random_.below(static_cast<std::uint64_t>(n_ - 1)))) % n_;
  }
  Time before(Time end) { return Time(random_.below(static_cast<std::uint64_t>(end.count()) + 1)); }
  Faults::Period period() {
    const Time from = before(duration_);
    // Short ones are other faults than long ones: each order of magnitude alike.
    const Time most = (duration_ - from) / (std::int64_t{1} << (2 * random_.below(5)));
    return {from, from + before(most)};
  }

  void add(FaultKind kind) {
    switch (kind) {
      case FaultKind::crash:
        return end(faults_.crashes);
      case FaultKind::failure:
        return end(faults_.failures);
      case FaultKind::leave:
        return end(faults_.leaves);
      case FaultKind::restart:  // which needs an end
        return end_and_restart(random_.below(4) == 0 ? faults_.leaves : faults_.crashes);
      case FaultKind::pause:
        return faults_.pauses.push_back({period(), rank()});
      case FaultKind::partition:
        return add_partition();
      case FaultKind::delay: {
        if (n_ < 2) return;
        const int sender = rank();
        return faults_.delays.push_back(
            {period(), sender, other_than(sender), before(duration_ / 8)});
      }
      case FaultKind::slow_link: {
        if (n_ < 2) return;
        const int sender = rank();
        const double rate = std::pow(10.0, random_.uniform(3, 6));
        return faults_.slow_links.push_back(
            {period(), sender, other_than(sender), std::round(rate)});
      }
      case FaultKind::slow_worker:
        return faults_.slow_workers.push_back(
            {period(), rank(), std::round(10 * random_.uniform(1.5, 20)) / 10});
      case FaultKind::drift:
        return faults_.drifts.push_back(
            {rank(), static_cast<int>(random_.below(100'001)) - 50'000});
    }
  }

  void end(std::vector<Faults::Moment>& ends) { ends.push_back({rank(), before(duration_)}); }
  void end_and_restart(std::vector<Faults::Moment>& ends) {
    const Faults::Period down = period();
    const int which = rank();
    ends.push_back({which, down.from});
    faults_.restarts.push_back({which, down.until});
  }

  void add_partition() {
    if (n_ < 2) return;
    const auto [from, until] = period();
    Faults::Partition partition{{rank()}, from, until};
    if (random_.below(3) == 0) {  // these two only
      partition.others = {other_than(partition.ranks.front())};
    } else {
      for (int each = 0; each < n_; ++each) {
        if (each != partition.ranks.front() && random_.below(3) == 0)
          partition.ranks.push_back(each);
      }
      if (static_cast<int>(partition.ranks.size()) == n_) partition.ranks.pop_back();
    }
    partition.way = std::array{Faults::Way::both, Faults::Way::both, Faults::Way::out,
                               Faults::Way::in}[random_.below(4)];
    faults_.partitions.push_back(std::move(partition));
  }

  Random random_;
  int n_;
  Time duration_;
  const std::set<FaultKind>& kinds_;
  Faults faults_;
};

}  // namespace

Faults draw_faults(std::uint64_t seed, int n, Time duration, const std::set<FaultKind>& kinds) {
  return Draw(seed, n, duration, kinds).faults();
}

// ---- printing ----

namespace {

std::string ms(Time time) {
  return fmt::format("{} ms", std::chrono::duration<double, std::milli>(time).count());
}
std::string span(Time from, Time until) {
  return fmt::format("from {} to {}", ms(from), ms(until));
}
std::string named(const std::vector<int>& ranks) {
  return fmt::format("rank {}", fmt::join(ranks, " and "));
}

std::string in_words(const Faults::Partition& partition) {
  const std::string who = named(partition.ranks);
  const std::string whom = partition.others.empty() ? "the others" : named(partition.others);
  const std::string when = span(partition.from, partition.until);
  if (partition.way == Faults::Way::out) {
    return fmt::format("nothing from {} arrives at {} {}", who, whom, when);
  }
  if (partition.way == Faults::Way::in) {
    return fmt::format("nothing from {} arrives at {} {}", whom, who, when);
  }
  return fmt::format("{} is cut off{} {}", who, partition.others.empty() ? "" : " from " + whom,
                     when);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Faults& faults) {
  out << fmt::format("seed {}", faults.seed);
  const auto moments = [&out](const std::vector<Faults::Moment>& all, const char* what) {
    for (const auto& [rank, at] : all) out << fmt::format(", rank {} {} at {}", rank, what, ms(at));
  };
  moments(faults.crashes, "crashes");
  moments(faults.failures, "fails");
  moments(faults.leaves, "is told to leave");
  moments(faults.restarts, "is started anew");
  for (const Faults::Pause& each : faults.pauses) {
    out << fmt::format(", rank {} is stopped {}", each.rank, span(each.from, each.until));
  }
  for (const Faults::Partition& each : faults.partitions) out << ", " << in_words(each);
  if (!faults.partitions.empty()) out << fmt::format(", detected in {}", ms(faults.detection));
  for (const Faults::Delay& each : faults.delays) {
    out << fmt::format(", from rank {} to {} it takes {} more {}", each.sender, each.receiver,
                       ms(each.by), span(each.from, each.until));
  }
  for (const Faults::SlowLink& each : faults.slow_links) {
    out << fmt::format(", from rank {} to {} go {} bytes/s {}", each.sender, each.receiver,
                       each.bytes_per_second, span(each.from, each.until));
  }
  for (const Faults::SlowWorker& each : faults.slow_workers) {
    out << fmt::format(", rank {} computes {} times slower {}", each.rank, each.factor,
                       span(each.from, each.until));
  }
  for (const Faults::Drift& each : faults.drifts) {
    out << fmt::format(", rank {}'s clock gains {} millionths", each.rank, each.millionths);
  }
  return out;
}

}  // namespace starling
