// A training in the simulator whose workers and servers come and go (plan/simulated_flock.h), done as
// job/worker.h, the trainer and launch/server_process.h do it. Each batch has a gradient that is its own,
// so what was learned from can be seen in the weights.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plan/flock_plan.h"
#include "roster/roster.h"
#include "strategy/settings.h"

namespace starling {

struct ElasticTraining {
  Settings settings;
  FlockPlan plan;
  std::uint64_t seed = 0;
  int servers = 0;  // on hosts of their own, behind the plan's
  std::uint64_t batches = 0;
  Time deadline = std::chrono::seconds(900);
};

struct ElasticResult {
  struct Model {
    Roster roster;  // that came to the end
    float weight;   // all are alike
    float share;    // how much its worker's weights counted in it
  };
  std::vector<Model> models;
  std::map<std::uint64_t, int> applied;  // batches, and how often they were learned from
  double acknowledged = 0;               // by servers: the sum of gradients
  std::vector<int> still_at_it;          // hosts
  std::string story;                     // all that happened, to the byte
};

// With as many workers and servers as the plan begins with.
ElasticTraining elastic_training(const Settings& settings, FlockPlan plan, std::uint64_t seed);

ElasticResult simulate(const ElasticTraining& training,
                       const std::function<void(const std::string& event)>& witness = {});

// What a batch adds to each weight.
float gradient_of(std::uint64_t batch);

}  // namespace starling
