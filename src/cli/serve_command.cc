// starling serve: a parameter server. The launcher starts as many as the settings say; nobody types
// it.
#include "cli/command.h"
#include "job/worker_events.h"
#include "launch/server_process.h"

namespace starling {

namespace {

void serve() {
  const Job job = job_from_environment();
  try {
    run_server(job);
  } catch (const std::exception& error) {
    if (job.events_fd < 0) throw;
    report_error(job, error);
    throw CLI::RuntimeError(1);
  }
}

}  // namespace

void add_serve_command(CLI::App& app) {
  app.add_subcommand("serve", "")->group("")->callback(serve);
}

}  // namespace starling
