#include "cli/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "base/error.h"

namespace starling {

RunFolder::RunFolder(std::filesystem::path path, const Settings& settings)
    : path_(std::move(path)) {
  if (std::filesystem::exists(path_ / "summary.json")) {
    throw Error(fmt::format("{} holds a finished run", path_.string()),
                "choose another folder with --run");
  }
  std::error_code error;
  created_ = std::filesystem::create_directories(path_, error);
  std::ofstream(path_ / "settings.toml") << write_settings(settings);
  metrics_.open(path_ / "metrics.jsonl");
  network_.open(path_ / "network.jsonl");
  if (!metrics_ || !network_) {
    throw Error(fmt::format("cannot write to {}", path_.string()),
                "choose another folder with --run");
  }
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  if (created_ && !used_) std::filesystem::remove_all(path_, ignored);
}

void RunFolder::record(int rank, const nlohmann::json& event) {
  const std::string kind = event.value("event", "");
  nlohmann::json row = event;
  row.erase("event");
  used_ = true;
  if (kind == "progress" || kind == "evaluation") {
    metrics_ << row.dump() << "\n" << std::flush;
  } else if (kind == "network") {
    row["rank"] = rank;
    network_ << row.dump() << "\n" << std::flush;
  }
}

void RunFolder::finish(const nlohmann::json& summary) {
  used_ = true;
  for (const auto& [who, what] : {std::pair{"servers", "gradients"}, {"mixing", "models"}}) {
    if (!summary.contains(who)) continue;
    std::ofstream histogram(path_ / "staleness.csv");
    histogram << "staleness," << what << "\n";
    std::size_t staleness = 0;
    for (const nlohmann::json& count : summary[who]["staleness_histogram"]) {
      histogram << staleness++ << "," << count << "\n";
    }
  }
  // Its presence says that the run is complete, so it must not be seen half-written.
  const std::filesystem::path draft = path_ / "summary.json.tmp";
  std::ofstream(draft) << summary.dump(2) << "\n";
  std::filesystem::rename(draft, path_ / "summary.json");
}

std::filesystem::path fresh_run_path(const Settings& settings) {
  const std::string name =
      fmt::format("{:%Y-%m-%d-%H%M%S}-{}-{}", fmt::localtime(std::time(nullptr)), settings.strategy,
                  settings.workers);
  std::filesystem::path path = std::filesystem::path("runs") / name;
  for (int i = 2; std::filesystem::exists(path); ++i) {
    path = std::filesystem::path("runs") / fmt::format("{}-{}", name, i);
  }
  return path;
}

}  // namespace starling
