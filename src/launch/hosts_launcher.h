// Launches a plan on several machines by ssh, or by whatever command takes its place: one agent
// (launch/agent.h) on each. All that workers report comes here, so that everything else is as on one
// machine.
//
// - An agent that cannot be started, or is not of our version, ends the launch with a line that names
//   its host, before any worker has begun.
// - If one fails, the others get a moment to notice by themselves, then SIGTERM, then their agents end.
// - On Ctrl-C the first machine is asked to stop, and the others when it has.
// - However the launcher ends, its ends of the agents' pipes close, and they and their workers go.
#pragma once

#include "launch/launcher.h"

namespace starling {

// What runs a command on another machine unless something else is said. It must not ask for anything.
inline constexpr const char* kUsualRsh =
    "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=4";

LaunchResult launch_on_hosts(const LaunchPlan& plan, const WorkerEvent& on_event,
                             const WorkerEnd& on_end);

}  // namespace starling
