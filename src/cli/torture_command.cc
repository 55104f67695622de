// starling torture: trainings in the simulator under faults that seeds draw, and what they break.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/units.h"
#include "cli/command.h"
#include "measure/torture_run.h"
#include "report/progress_bar.h"
#include "report/table.h"

namespace starling {

namespace {

constexpr std::uint64_t kMostVerbose = 100;  // seeds

struct TortureCommand {
  TortureRun run;
  std::vector<std::string> scenarios = {"all"}, systems = {"all"};
  bool verbose = false;
  bool print_json = false;
};

std::vector<std::string> unless_all(const std::vector<std::string>& names) {
  return names == std::vector<std::string>{"all"} ? std::vector<std::string>() : names;
}

std::string in_words(const TortureFailure& failure) {
  return fmt::format("seed {} of {} in {}:\n  {}\n  {}\n  see it again: {}\n", failure.seed,
                     failure.system, failure.scenario, failure.story,
                     fmt::join(failure.wrongs, "\n  "), replay_command(failure));
}

nlohmann::json to_json(const TortureCommand& command, const TortureResult& result, double seconds) {
  nlohmann::json failures = nlohmann::json::array();
  for (const TortureFailure& each : result.failures) {
    failures.push_back({{"scenario", each.scenario},
                        {"system", each.system},
                        {"seed", each.seed},
                        {"story", each.story},
                        {"wrongs", each.wrongs},
                        {"replay", replay_command(each)}});
  }
  return {{"first", command.run.first},
          {"seeds", result.done},
          {"seconds", seconds},
          {"failures", failures}};
}

// Each event of each seed, in this process.
TortureResult show(const TortureRun& run) {
  const std::vector<Trial> trials = trials_of(run);
  TortureResult result;
  for (std::uint64_t seed = run.first; seed < run.first + run.seeds; ++seed) {
    const auto& [scenario, system] = trials[seed % trials.size()];
    fmt::print("{} in {}, seed {}:\n", system.name, scenario->name, seed);
    const Ordeal ordeal = torture(*scenario, system, seed, [](const std::string& event) {
      fmt::print("  {}\n", event);
      std::fflush(stdout);
    });
    for (const std::string& wrong : ordeal.wrongs) fmt::print("  wrong: {}\n", wrong);
    fmt::print("  {}, digest {:016x}\n", ordeal.wrongs.empty() ? "as it must be" : "failed",
               ordeal.digest);
    ++result.done;
    if (!ordeal.wrongs.empty()) {
      result.failures.push_back({scenario->name, system.name, seed, ordeal.story, ordeal.wrongs});
    }
  }
  return result;
}

TortureResult run_with_bar(const TortureRun& run) {
  ProgressBar bar("torture");
  const auto start = std::chrono::steady_clock::now();
  std::size_t failed = 0;
  return run_torture(
      run,
      [&](std::uint64_t done) {
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
        bar.show(
            static_cast<double>(done) / static_cast<double>(run.seeds),
            fmt::format("{} of {} seeds  {} failed  {}/s", format_count(static_cast<double>(done)),
                        format_count(static_cast<double>(run.seeds)), failed,
                        format_count(static_cast<double>(done) / passed.count())));
      },
      [&](const TortureFailure& failure) {
        ++failed;
        bar.say(in_words(failure));
      });
}

void list_scenarios() {
  Table table({"scenario", "what it is"});
  for (const Scenario& each : scenarios()) table.add({each.name, each.summary});
  fmt::print("{}", table.text());
}

void run_command(TortureCommand command) {
  command.run.scenarios = unless_all(command.scenarios);
  command.run.systems = unless_all(command.systems);
  if (command.verbose && command.run.seeds > kMostVerbose) {
    throw Error(fmt::format("--verbose tells every event, and {} seeds have too many of them",
                            command.run.seeds),
                fmt::format("ask for at most {} --seeds", kMostVerbose));
  }
  const auto start = std::chrono::steady_clock::now();
  const TortureResult result = command.verbose ? show(command.run) : run_with_bar(command.run);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  if (command.print_json) {
    fmt::print("{}\n", to_json(command, result, passed.count()).dump());
  } else if (!command.verbose) {
    fmt::print("{} seeds, each run twice, in {}: {}\n",
               format_count(static_cast<double>(result.done)),
               format_duration(std::chrono::duration_cast<std::chrono::nanoseconds>(passed)),
               result.failures.empty() ? "nothing is wrong"
                                       : fmt::format("{} failed", result.failures.size()));
  }
  if (!result.failures.empty()) throw CLI::RuntimeError(1);
}

}  // namespace

void add_torture_command(CLI::App& app) {
  auto command = std::make_shared<TortureCommand>();
  CLI::App* torture =
      app.add_subcommand("torture", "Train in the simulator under faults that seeds draw");
  torture->footer(
      "A seed draws a small training and what goes wrong with it: crashes, restarts, pauses, "
      "splits,\n"
      "delays, slow links and workers, clocks that drift. It is run twice and must end alike; "
      "nobody may\n"
      "hang, who is lost must be named, and models, batches and sums must be what they have to "
      "be.\n\n"
      "Example:\n"
      "  starling torture --seeds 1000000 --jobs 2\n"
      "  starling torture --systems easgd --first 4711 --seeds 1 --verbose    (one that failed)");
  torture->add_option("--systems", command->systems, "which systems take turns, or all")
      ->delimiter(',')
      ->capture_default_str();
  torture->add_option("--scenarios", command->scenarios, "which scenarios take turns, or all")
      ->delimiter(',')
      ->capture_default_str();
  torture->add_option("--seeds", command->run.seeds, "how many")
      ->check(CLI::PositiveNumber)
      ->default_val(2000);
  torture->add_option("--first", command->run.first, "the first of them")->capture_default_str();
  torture->add_option("--jobs", command->run.jobs, "how many processes at a time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  torture->add_flag("--verbose", command->verbose, "tell the faults and every event");
  torture->add_flag("--json", command->print_json, "print JSON");
  torture->add_flag_callback(
      "--list",
      [] {
        list_scenarios();
        throw CLI::Success();
      },
      "list the scenarios");
  torture->callback([command] { run_command(*command); });
}

}  // namespace starling
