#include "cli/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <ctime>

#include "base/error.h"
#include "report/run_data.h"

namespace starling {

RunFolder::RunFolder(std::filesystem::path path, const Settings& settings)
    : path_(std::move(path)) {
  if (std::filesystem::exists(path_ / "summary.json")) {
    throw Error(fmt::format("{} holds a finished run", path_.string()),
                "choose another folder with --run");
  }
  std::error_code error;
  // Those of a run that was cut off here before.
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename();
    if (name.find(".tfevents.") != std::string::npos) std::filesystem::remove(entry.path());
  }
  created_ = std::filesystem::create_directories(path_, error);
  std::ofstream(path_ / "settings.toml") << write_settings(settings);
  metrics_.open(path_ / "metrics.jsonl");
  network_.open(path_ / "network.jsonl");
  if (!metrics_ || !network_) {
    throw Error(fmt::format("cannot write to {}", path_.string()),
                "choose another folder with --run");
  }
  tensorboard_.emplace(path_);
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
    step_ = static_cast<std::int64_t>(number_in(event, "step"));
    log_scalar("loss/training", event, "loss");
    log_scalar("loss/test", event, "test_loss");
    log_scalar("accuracy/test", event, "accuracy");
    log_scalar("workers/spread", event, "spread");
    log_scalar("speed/samples_per_second", event, "samples_per_second");
  } else if (kind == "network") {
    row["rank"] = rank;
    network_ << row.dump() << "\n" << std::flush;
    const nlohmann::json sent = {{"sent", wire_in(event.value("sent", nlohmann::json()))}};
    log_scalar(fmt::format("bytes_sent/rank_{}", rank), sent, "sent");
  }
}

void RunFolder::log_scalar(const std::string& tag, const nlohmann::json& event, const char* key) {
  if (!event.contains(key) || !event[key].is_number()) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  tensorboard_->scalar(tag, event[key].get<double>(), step_,
                       std::chrono::duration<double>(now).count());
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

std::filesystem::path fresh_run_path(const std::string& what) {
  const std::string name =
      fmt::format("{:%Y-%m-%d-%H%M%S}-{}", fmt::localtime(std::time(nullptr)), what);
  std::filesystem::path path = std::filesystem::path("runs") / name;
  for (int i = 2; std::filesystem::exists(path); ++i) {
    path = std::filesystem::path("runs") / fmt::format("{}-{}", name, i);
  }
  return path;
}

}  // namespace starling
