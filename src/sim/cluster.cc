#include "sim/cluster.h"

#include <algorithm>

#include "sim/sim_comm.h"

namespace starling {

Cluster::Cluster(int size, Network network)
    : network_(std::move(network)),
      egress_free_(static_cast<std::size_t>(size)),
      ingress_free_(static_cast<std::size_t>(size)) {
  for (int rank = 0; rank < size; ++rank) {
    comms_.push_back(std::make_unique<SimComm>(*this, loop_, rank, size));
  }
}

Cluster::~Cluster() = default;

Comm& Cluster::comm(int rank) { return sim_comm(rank); }

void Cluster::run(const Program& program) {
  for (const std::exception_ptr& error : try_run(program)) {
    if (error) std::rethrow_exception(error);
  }
}

std::vector<std::exception_ptr> Cluster::try_run(const Program& program) {
  Signal signal;
  std::vector<std::unique_ptr<Running>> ranks;
  for (const auto& comm : comms_) {
    ranks.push_back(comm->alive() ? std::make_unique<Running>(program(*comm), signal) : nullptr);
  }
  std::vector<SimLoop::EventId> planned;
  for (const auto& [rank, time] : crashes_) {
    if (!comms_[static_cast<std::size_t>(rank)]->alive()) continue;
    planned.push_back(loop_.at(time, [this, &ranks, &signal, dead = rank] {
      comms_[static_cast<std::size_t>(dead)]->die();
      ranks[static_cast<std::size_t>(dead)].reset();
      for (const auto& comm : comms_) {
        const Time notice = network_.link(dead, comm->rank()).latency;
        loop_.at(loop_.now() + notice, [&comm, dead] { comm->lose(dead); });
      }
      signal.take_waiter().resume();
    }));
  }
  loop_.run(until_done(ranks, signal));
  for (SimLoop::EventId crash : planned) loop_.cancel(crash);

  std::vector<std::exception_ptr> errors;
  for (const auto& rank : ranks) {
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

Task<> Cluster::until_done(std::vector<std::unique_ptr<Running>>& ranks, Signal& signal) {
  const auto over = [](const auto& rank) { return rank == nullptr || rank->done(); };
  while (!std::ranges::all_of(ranks, over)) co_await signal;
}

Cluster::Passage Cluster::pass(int from, int to, std::uint64_t wire_bytes) {
  const Link& link = network_.link(from, to);
  const Time transfer = link.transfer_time(static_cast<double>(wire_bytes));
  Time& egress_free = egress_free_[static_cast<std::size_t>(from)];
  Time& ingress_free = ingress_free_[static_cast<std::size_t>(to)];

  Passage passage;
  passage.begins = std::max(loop_.now(), egress_free);
  passage.leaves = egress_free = passage.begins + transfer;
  passage.arrives = ingress_free = std::max(passage.leaves + link.latency, ingress_free + transfer);
  return passage;
}

}  // namespace starling
