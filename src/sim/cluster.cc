#include "sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "runtime/race.h"
#include "sim/sim_comm.h"

namespace starling {

// The programs of all ranks, and what is planned to go wrong with them.
struct Cluster::Run {
  explicit Run(SimLoop& world) : loop(world) {}
  ~Run() {
    for (SimLoop::EventId event : planned) loop.cancel(event);
  }
  void plan(Time time, std::function<void()> action) {
    if (time >= loop.now()) planned.push_back(loop.at(time, std::move(action)));
  }

  SimLoop& loop;
  Signal signal;
  std::vector<std::unique_ptr<Running>> ranks;
  std::vector<SimLoop::EventId> planned;
};

Cluster::Cluster(int size, Network network, Faults faults)
    : network_(std::move(network)),
      faults_(std::move(faults)),
      egress_free_(static_cast<std::size_t>(size)),
      ingress_free_(static_cast<std::size_t>(size)) {
  for (int rank = 0; rank < size; ++rank) {
    loops_.push_back(std::make_unique<LocalLoop>(loop_));
    comms_.push_back(std::make_unique<SimComm>(*this, *loops_.back(), rank, size));
  }
}

Cluster::~Cluster() = default;

Comm& Cluster::comm(int rank) { return sim_comm(rank); }

void Cluster::run(const Program& program) {
  for (const std::exception_ptr& error : try_run(program)) {
    if (error) std::rethrow_exception(error);
  }
}

std::vector<std::exception_ptr> Cluster::drive(const Program& program, bool whole_life) {
  STARLING_CHECK(faults_.restarts.empty(), "nobody comes back to a cluster");
  Run run(loop_);
  for (const auto& [rank, millionths] : faults_.drifts) {
    loops_[static_cast<std::size_t>(rank)]->set_drift(millionths);
  }
  for (const auto& comm : comms_) {
    run.ranks.push_back(
        comm->alive()
            ? std::make_unique<Running>(live_through(*comm, program(*comm), whole_life), run.signal)
            : nullptr);
  }
  plan_faults(run);
  loop_.run(until_done(run));

  std::vector<std::exception_ptr> errors;
  for (const auto& rank : run.ranks) {
    errors.push_back(nullptr);
    if (rank == nullptr) continue;
    try {
      rank->rethrow_failure();
    } catch (...) {
      errors.back() = std::current_exception();
    }
  }
  return errors;
}

Task<> Cluster::live_through(SimComm& comm, Task<> program, bool whole_life) {
  bool leaves = whole_life;
  try {
    if (const std::optional<Order> order = next_order(comm.rank())) {
      Task<int> contest = race(std::move(program), follow(*order, comm));
      const int winner = co_await contest;
      if (winner == 1) leaves = true;
    } else {
      co_await program;
    }
  } catch (...) {
    end(comm, comm.is_cut_off() ? comm.rank() : comm.culprit().value_or(comm.rank()));
    throw;
  }
  if (leaves) end(comm, comm.is_cut_off() ? comm.rank() : comm.culprit());
}

std::optional<Cluster::Order> Cluster::next_order(int rank) const {
  std::optional<Order> next;
  for (const bool to_fail : {true, false}) {
    for (const Faults::Moment& each : to_fail ? faults_.failures : faults_.leaves) {
      if (each.rank != rank || each.at < loop_.now()) continue;
      if (!next || each.at < next->at) next = Order{each.at, to_fail};
    }
  }
  return next;
}

Task<> Cluster::follow(Order order, Comm& comm) {
  co_await sleep_until(comm.loop(), order.at);
  if (order.to_fail) throw Error(fmt::format("rank {} fails, as it was told to", comm.rank()));
}

Task<> Cluster::until_done(Run& run) {
  const auto over = [](const auto& rank) { return rank == nullptr || rank->done(); };
  while (!std::ranges::all_of(run.ranks, over)) co_await run.signal;
}

void Cluster::plan_faults(Run& run) {
  for (const auto& [rank, at] : faults_.crashes) {
    run.plan(at, [this, &run, &comm = sim_comm(rank)] {
      if (!comm.alive()) return;
      end(comm, comm.rank());
      run.ranks[static_cast<std::size_t>(comm.rank())].reset();
      run.signal.take_waiter().resume();
    });
  }
  for (const Faults::Pause& pause : faults_.pauses) {
    SimComm& comm = sim_comm(pause.rank);
    run.plan(pause.from, [&comm] { comm.stop(); });
    run.plan(pause.until, [&comm] { comm.go_on(); });
  }
  for (const Faults::Partition& each : faults_.partitions) {
    run.plan(each.from, [this, each] { across(each, &Stream::cut); });
    if (each.until <= each.from + faults_.detection) {
      run.plan(each.until, [this, each] { across(each, &Stream::mend); });
    } else {
      run.plan(each.from + faults_.detection, [this, each] { detect(each); });
    }
  }
}

void Cluster::across(const Faults::Partition& partition, void (Stream::*action)()) {
  for (int from = 0; from < size(); ++from) {
    for (int to = 0; to < size(); ++to) {
      if (partition.cuts(from, to)) (sim_comm(to).stream_from(from).*action)();
    }
  }
}

void Cluster::detect(const Faults::Partition& partition) {
  for (const auto& comm : comms_) {
    std::vector<int> silent;
    for (int peer = 0; peer < size(); ++peer) {
      if (partition.parts(peer, comm->rank())) silent.push_back(peer);
    }
    if (!silent.empty()) comm->miss(silent);
  }
}

void Cluster::end(SimComm& comm, std::optional<int> culprit) {
  comm.die();
  std::set<Time> latencies = {network_.standard.latency};
  for (const auto& [ends, cable] : network_.exceptions) {
    if (ends.first == comm.rank()) latencies.insert(cable.latency);
  }
  for (const Time latency : latencies) {
    loop_.at(loop_.now() + latency, [this, latency, rank = comm.rank(), culprit] {
      for (const auto& other : comms_) {
        const bool hears_now = network_.cable(rank, other->rank()).latency == latency;
        if (hears_now && other->alive()) other->see_end(rank, culprit);
      }
    });
  }
}

Cluster::Passage Cluster::pass(int from, int to, std::uint64_t wire_bytes) {
  Cable cable = network_.cable(from, to);
  cable.bytes_per_second =
      std::min(cable.bytes_per_second, faults_.bytes_per_second(from, to, loop_.now()));
  const Time transfer = cable.transfer_time(static_cast<double>(wire_bytes));
  Time& egress_free = egress_free_[static_cast<std::size_t>(from)];
  Time& ingress_free = ingress_free_[static_cast<std::size_t>(to)];

  Passage passage;
  passage.begins = std::max(loop_.now(), egress_free);
  passage.leaves = egress_free = passage.begins + transfer;
  passage.arrives = ingress_free =
      std::max(passage.leaves + cable.latency, ingress_free + transfer);
  passage.arrives += faults_.delay(from, to, loop_.now());  // which holds up nobody else
  return passage;
}

}  // namespace starling
