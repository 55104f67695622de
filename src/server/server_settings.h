// What can be chosen about parameter servers and about how workers talk to them.
#pragma once

#include "server/gate.h"
#include "server/staleness_rule.h"

namespace starling {

struct ServerSettings {
  enum class Placement { apart, workers };
  friend constexpr Names<2> names_of(Placement) { return {"placement", {"apart", "workers"}}; }

  int servers = 1;
  Placement placement = Placement::apart;
  int group = 1;
  int replicas = 1;
  GateSettings gate;
  StalenessRule staleness;
  int push_every = 1;
  int fetch_every = 1;
  int lag = 0;
  bool eager = false;
  bool factors = false;

  int server_count(int workers) const { return servers == 0 ? workers : servers; }
  int group_size(int workers) const { return group == 0 ? workers : group; }

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    visit(
        {"servers", Section::servers, "server: how many parameter servers; 0: as many as workers"},
        s.servers, 0, 4096);
    visit({"placement", Section::servers,
           "server: apart (processes of their own) or workers (the first workers serve as well)"},
          s.placement);
    visit({"group", Section::servers,
           "server: workers that reduce to a proxy, which talks to the servers; 1: none, 0: all"},
          s.group, 0, 4096);
    visit({"replicas", Section::servers,
           "server: how many servers hold each shard; with 2 one may be lost, with 3 two"},
          s.replicas, 1, 64);
    GateSettings::visit(s.gate, visit);
    StalenessRule::visit(s.staleness, visit);
    visit({"push_every", Section::servers, "server: push the sum of so many gradients"},
          s.push_every, 1, 1'000'000);
    visit({"fetch_every", Section::servers, "server: fetch weights after so many steps"},
          s.fetch_every, 1, 1'000'000);
    visit({"lag", Section::servers,
           "server: go on while the exchanges of so many steps are under way"},
          s.lag, 0, 64);
    visit({"eager", Section::servers, "server: send fresh weights to workers before they ask"},
          s.eager);
    visit(
        {"factors", Section::servers,
         "server: dense layers send activations and errors where that is less than their gradient"},
        s.factors);
  }
};

// Throws Error, in one sentence, if they do not go together, or not with so many workers, each of
// which sums the gradients of so many batches. `what` is what counts as a worker.
void check(const ServerSettings& settings, int workers, int backward_passes,
           std::string_view what = "workers");

}  // namespace starling
