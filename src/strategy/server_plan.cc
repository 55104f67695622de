#include "strategy/server_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "strategy/grid.h"
#include "strategy/registry.h"

namespace starling {

int server_count(const Settings& settings) {
  const bool has_servers = strategy_row(settings.strategy).reads == Part::servers;
  return has_servers ? settings.server.server_count(settings.copies()) : 0;
}

int server_processes(const Settings& settings) {
  return settings.server.placement == ServerSettings::Placement::apart
             ? server_count(settings) * settings.parallel.slices()
             : 0;
}

int first_server(const Settings& settings) {
  return settings.server.placement == ServerSettings::Placement::apart ? settings.copies() : 0;
}

int group_size(const Settings& settings) { return settings.server.group_size(settings.copies()); }

Group block_holders(const Settings& settings, Comm& comm) {
  if (server_processes(settings) == 0) return slice_workers(settings, comm, GroupNumber::blocks);
  std::vector<int> ranks;
  for (int rank = settings.workers; rank < comm.size(); ++rank) ranks.push_back(rank);
  return Group(comm, ranks, static_cast<std::uint32_t>(GroupNumber::blocks));
}

namespace {

Clerk::Options clerk_options(const GateSettings& gate) {
  if (gate.in_step()) return {Clerk::Mode::own_share, gate.epoch_share};
  // Who waits for an epoch's end would hold up all other gates, which count on its gradients.
  const bool waits = gate.kind == GateSettings::Kind::async && gate.epoch_share < 1;
  return {waits ? Clerk::Mode::until_share : Clerk::Mode::whoever_is_free, gate.epoch_share};
}

}  // namespace

Chain server_chain(const Settings& settings) {
  return {first_server(settings), server_count(settings), settings.server.replicas};
}

ServerOptions server_options(const Settings& settings) {
  ServerOptions options;
  options.chain = server_chain(settings);
  options.worker_stride = group_size(settings);
  options.workers = settings.copies() / options.worker_stride;
  options.optimizer = settings.optimizer;
  options.gate = settings.server.gate;
  if (options.gate.quorum == 0) options.gate.quorum = std::max(1, options.workers - 1);
  options.staleness = settings.server.staleness;
  options.clerk = clerk_options(settings.server.gate);
  options.codec = {settings.mix.codec, static_cast<std::uint64_t>(settings.seed)};
  options.elastic = settings.elastic.on;
  return options;
}

void check_servers(const Settings& settings) {
  check(settings.server, settings.copies(), settings.backward_passes,
        settings.parallel.slices() > 1 ? "copies of the model" : "workers");
  const CodecSettings::Kind codec = settings.mix.codec.kind;
  if (codec == CodecSettings::Kind::raw) return;
  if (codec == CodecSettings::Kind::low_rank) {
    throw Error("codec = low-rank needs whole matrices, and servers hold blocks of them",
                "use strategy allreduce, or another codec");
  }
  if (codec == CodecSettings::Kind::threshold && !settings.mix.codec.adaptive) {
    throw Error("one threshold does not fit both gradients and what they change weights by",
                "set codec_adaptive, or use codec top-k");
  }
  if (settings.server.factors) {
    throw Error(fmt::format("codec = {} codes gradients, and factors are sent instead", codec),
                "leave out one of them");
  }
  if (settings.server.eager) {
    throw Error(
        fmt::format("codec = {} codes what a worker asks for, and eager weights go unasked", codec),
        "leave out one of them");
  }
}

bool servers_survive_losses(const Settings& settings) {
  // A server on a worker that is lost needs a replica.
  const bool servers_stay =
      settings.server.placement == ServerSettings::Placement::apart || settings.server.replicas > 1;
  return servers_stay && group_size(settings) == 1 &&
         !make_gate(server_options(settings).gate)->needs_everybody();
}

bool survives_lost_servers(const Settings& settings) {
  return server_processes(settings) > 0 && settings.server.replicas > 1 &&
         settings.parallel.slices() == 1;
}

}  // namespace starling
