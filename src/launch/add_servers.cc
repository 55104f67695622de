#include "launch/add_servers.h"

#include "launch/programs.h"
#include "strategy/grid.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"

namespace starling {

void add_servers(const Settings& settings, LaunchPlan& plan) {
  plan.servers = server_processes(settings);
  plan.server_command = {own_program(), "serve"};
  plan.survives_losses = survives_losses(settings);
  plan.survives_lost_servers = survives_lost_servers(settings);
  plan.elastic = settings.elastic.on;
  for (int worker = 0; worker < settings.workers; ++worker) {
    plan.places.push_back(place_name(settings, worker));
  }
}

}  // namespace starling
