// starling: the command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/nearest_name.h"
#include "job/job.h"
#include "launch/launcher.h"
#include "measure/machine.h"

namespace {

// The first word is a command or a flag; for any other the parser has no better answer than its help.
std::string wrong_command(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with("-")) return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::ranges::find(names, words[0]) != names.end()) return "";
  const auto meant = starling::nearest_name(words[0], names);
  return fmt::format("there is no command '{}'; {}", words[0],
                     meant ? fmt::format("did you mean `starling {}`?", *meant)
                           : fmt::format("there are {}", fmt::join(names, ", ")));
}

// For people, and for a program that asked for JSON there as well.
int fail(const std::vector<std::string>& words, const std::string& error, int exit_code) {
  fmt::print(stderr, "error: {}\n", error);
  if (std::ranges::find(words, "--json") != words.end()) {
    fmt::print("{}\n", nlohmann::json{{"error", error}}.dump(
                           -1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Trains neural networks on many machines when the network is the bottleneck.",
               "starling"};
  app.footer("Try: starling train --data synthetic --workers 4");
  app.require_subcommand(1);
  app.set_version_flag("--version", [] {
    return fmt::format("starling {}\n{}", starling::version(), starling::kernels_description());
  });
  starling::add_train_command(app);
  // What stands behind -- is a program's own: no word of it is a flag of ours, nor meant by an error.
  std::vector<std::string> words(argv + 1, argv + argc);
  constexpr std::array<std::string_view, 3> kStarters = {"launch", "join", "spark-submit"};
  const bool starts = !words.empty() && std::ranges::find(kStarters, words[0]) != kStarters.end();
  const auto behind = starts ? std::ranges::find(words, "--") : words.end();
  const std::vector<std::string> program(behind == words.end() ? behind : std::next(behind),
                                         words.end());
  words.erase(behind, words.end());
  starling::add_launch_command(app, program);
  starling::add_join_command(app, program);
  starling::add_spark_submit_command(app, program);
  starling::add_measure_command(app);
  starling::add_systems_command(app);
  starling::add_explain_command(app);
  starling::add_graph_command(app);
  starling::add_bench_command(app);
  starling::add_report_command(app);
  starling::add_status_command(app);
  starling::add_lab_command(app);
  starling::add_agent_command(app);
  starling::add_serve_command(app);
  starling::add_torture_command(app);
  const std::string command = words.empty() || words[0].starts_with("-") ? "" : words[0] + " ";
  try {
    starling::start_log("starling",
                        spdlog::level::from_str(starling::log_level_from_environment()));
    if (const std::string error = wrong_command(app, words); !error.empty()) {
      return fail(words, error, 2);
    }
    std::vector<std::string> last_first(words.rbegin(), words.rend());  // as the parser wants them
    app.parse(last_first);
    if (std::fflush(stdout) != 0) {
      throw starling::Error(fmt::format("cannot write the output: {}", std::strerror(errno)));
    }
    return 0;
  } catch (const CLI::RuntimeError& status) {  // a command's own exit code; it has said why
    return status.get_exit_code();
  } catch (const starling::Interrupted& interrupted) {
    return interrupted.exit_code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help
    return fail(words, fmt::format("{}; see `starling {}--help`", error.what(), command), 2);
  } catch (const std::exception& error) {
    return fail(words, error.what(), 1);
  }
}
