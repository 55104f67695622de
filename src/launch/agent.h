// The agent: `starling agent`, a launcher's hand on another machine. The launcher (launch/hosts_launcher.h)
// starts one on each by ssh, and they talk over its stdin and stdout, a line each:
//
//   A. The agent says hello: its version, its machine's name and addresses, and a port that it listens
//      on, should rank 0 be its.
//   B. The launcher writes its part of the plan, the secret with it: on a command line everybody on the
//      machine could read that. The agent starts its workers.
//   C. What workers print goes on as it is; between, behind a byte that no text has, what they report,
//      how each ended, and at last how all of it ended.
//   D. The launcher writes the numbers of signals to pass on, and a 0 every few seconds. When its end
//      closes, or is silent for long, nobody is left to work for: the agent kills its workers and goes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "launch/launcher.h"

namespace starling {

// What the agent says, as a line; and back. Nothing if the line is something that a worker prints.
std::string event_line(const nlohmann::json& event);
std::optional<nlohmann::json> event_in(std::string_view line);

// The part of a plan that another machine needs, as a line.
std::string plan_line(const LaunchPlan& plan);

// Until all of its workers have ended; returns the exit code.
int run_agent();

}  // namespace starling
