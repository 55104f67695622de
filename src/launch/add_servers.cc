#include "launch/add_servers.h"

#include "launch/programs.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"

namespace starling {

void add_servers(const Settings& settings, LaunchPlan& plan) {
  plan.servers = server_processes(settings);
  plan.server_command = {own_program(), "serve"};
  plan.survives_losses = survives_losses(settings);
}

}  // namespace starling
