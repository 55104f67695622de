// starling agent: what a launcher with --hosts starts on each of them; nobody types it.
#include "cli/command.h"
#include "launch/agent.h"

namespace starling {

void add_agent_command(CLI::App& app) {
  app.add_subcommand("agent", "")->group("")->callback([] {
    if (const int code = run_agent(); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace starling
