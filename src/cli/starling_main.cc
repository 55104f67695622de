// starling: the command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "job/job.h"
#include "launch/launcher.h"
#include "measure/machine.h"

int main(int argc, char** argv) {
  CLI::App app{"Trains neural networks on many machines when the network is the bottleneck.",
               "starling"};
  app.footer("Try: starling train --data synthetic --workers 4");
  app.require_subcommand(1);
  app.set_version_flag("--version", [] {
    return "starling " STARLING_VERSION "\n" + starling::kernels_description();
  });
  starling::add_train_command(app);
  // What stands behind -- is a program's own: no word of it is a flag of ours, nor meant by an error.
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool launches = !words.empty() && words[0] == "launch";
  const auto program = launches ? std::ranges::find(words, "--") : words.end();
  starling::add_launch_command(
      app, {program == words.end() ? program : std::next(program), words.end()});
  words.erase(program, words.end());
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
    std::ranges::reverse(words);  // as the parser wants them
    app.parse(words);
    if (std::fflush(stdout) != 0) {
      throw starling::Error(fmt::format("cannot write the output: {}", std::strerror(errno)));
    }
    return 0;
  } catch (const CLI::RuntimeError& status) {  // a command's own exit code; it has said why
    return status.get_exit_code();
  } catch (const starling::Interrupted& interrupted) {
    return interrupted.exit_code;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
