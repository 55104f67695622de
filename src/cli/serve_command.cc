// starling serve: a parameter server. The launcher starts as many as the settings say; nobody types
// it.
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "net/join.h"
#include "net/timeline_file.h"
#include "net/worker_events.h"
#include "strategy/server_plan.h"

namespace starling {

namespace {

void serve_once() {
  const Job job = job_from_environment();
  start_log(fmt::format("rank {}", job.rank),
            spdlog::level::from_str(log_level_from_environment()));
  try {
    if (job.settings.empty()) {
      throw Error("`starling serve` is started by `starling train` and `starling launch`");
    }
    Settings settings;
    read_settings(job.settings, "the launcher's settings", settings);
    ServerOptions options = server_options(settings);
    options.timeout = job.timeout;
    TcpLoop loop;
    Membership member = join(loop, job);
    const TimelineFile timeline(job, member.comm());
    Server server(member.comm(), options);
    loop.run(server.serve());
  } catch (const std::exception& error) {
    if (job.events_fd < 0) throw;
    report_error(job, error);
    throw CLI::RuntimeError(1);
  }
}

}  // namespace

void add_serve_command(CLI::App& app) {
  CLI::App* serve = app.add_subcommand("serve", "")->group("");
  serve->callback(serve_once);
}

}  // namespace starling
