#include "measure/measured_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "measure/ddp_peer.h"
#include "measure/training_run.h"
#include "report/progress_bar.h"
#include "report/run_data.h"
#include "report/run_folder.h"

namespace starling {

namespace {

using nlohmann::json;

// What a settings file comes to: those that were not there yet when it was written are as they are by
// default.
std::string as_now(const std::string& text, const std::filesystem::path& folder) {
  Settings settings;
  read_settings(text, (folder / "settings.toml").string(), settings);
  return write_settings(settings);
}

// The run's summary if it was finished before under the same settings, in such a lab.
std::optional<RunSummary> finished(const std::filesystem::path& folder, const Settings& settings,
                                   const std::string& lab) {
  std::ifstream summary(folder / "summary.json");
  std::ifstream before(folder / "settings.toml");
  if (!summary || !before) return std::nullopt;
  const std::string text((std::istreambuf_iterator<char>(before)),
                         std::istreambuf_iterator<char>());
  if (as_now(text, folder) != write_settings(settings)) {
    throw Error(fmt::format("{} was measured with other settings", folder.string()),
                "choose another --folder, or remove that one");
  }
  const json result = json::parse(summary, nullptr, false);
  if (!result.is_object()) return std::nullopt;
  if (run_summary_in(result).lab.value_or("") != lab) {
    throw Error(fmt::format("{} was measured with other links", folder.string()),
                "choose another --folder, or remove that one");
  }
  const RunSummary before_now = run_summary_in(result);
  if (before_now.ended) return std::nullopt;
  return before_now;
}

// As a run of ours leaves it, so that reports show both.
RunSummary run_ddp(const TrainingPlan& plan) {
  RunFolder folder(plan.run_folder, plan.settings);
  ProgressBar bar(plan.grid->name());
  bar.show(plan.grid->share(0), plan.grid->describe(0));
  RunSummary summary;
  try {
    summary = train_by_ddp(plan.settings, plan.launch, [&](const json& event) {
      folder.record(0, event);
      const double share = number_in(event, "step") / std::max(1.0, number_in(event, "steps"));
      bar.show(plan.grid->share(share), plan.grid->describe(share));
    });
  } catch (const Error& error) {
    if (!folder.used()) throw;
    summary.ended = "failed";
    summary.reason = error.what();
    folder.finish(summary);
    throw TrainingBroke(error.what());
  }
  // The only count there is, and only in a lab.
  for (RankSummary& rank : summary.ranks) rank.wire_bytes_sent = rank.kernel_bytes_sent;
  if (!plan.launch.lab.empty()) summary.lab = plan.launch.lab;
  folder.finish(summary);
  return summary;
}

}  // namespace

RunSummary measured_run(const MeasureOptions& options, const Settings& settings,
                        const std::string& name, bool by_ddp) {
  const std::filesystem::path folder = options.folder / name;
  if (const auto before = finished(folder, settings, options.lab)) {
    options.progress->end(folder, true);
    return *before;
  }
  TrainingPlan plan{settings, folder, name};
  plan.launch.lab = options.lab;
  if (!options.lab.empty()) plan.launch.timeout = std::chrono::minutes(10);  // links are slow
  plan.grid = options.progress;
  options.progress->begin(name);
  try {
    const RunSummary summary = by_ddp ? run_ddp(plan) : run_training(plan);
    options.progress->end(folder);
    return summary;
  } catch (const TrainingBroke& broke) {
    options.progress->end(folder);
    throw TrainingBroke(fmt::format("{}: {}", name, broke.what()));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", name, error.what()));
  }
}

}  // namespace starling
