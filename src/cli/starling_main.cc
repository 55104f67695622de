// starling: the command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/machine.h"
#include "net/job.h"

int main(int argc, char** argv) {
  CLI::App app{"Trains neural networks on many machines when the network is the bottleneck.",
               "starling"};
  app.footer("Try: starling train --data synthetic --workers 4");
  app.require_subcommand(1);
  app.set_version_flag("--version", [] {
    return "starling " STARLING_VERSION "\n" + starling::kernels_description();
  });
  starling::add_train_command(app);
  starling::add_launch_command(app);
  starling::add_measure_command(app);
  starling::add_systems_command(app);
  starling::add_explain_command(app);
  starling::add_graph_command(app);
  starling::add_bench_command(app);
  starling::add_report_command(app);
  starling::add_lab_command(app);
  starling::add_serve_command(app);
  try {
    starling::start_log("starling",
                        spdlog::level::from_str(starling::log_level_from_environment()));
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& status) {  // a command's own exit code; it has said why
    return status.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
