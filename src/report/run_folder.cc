#include "report/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <string.h>

#include <cerrno>
#include <chrono>
#include <ctime>

#include "base/error.h"
#include "base/whole_file.h"
#include "report/run_data.h"

namespace starling {

namespace {

constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kNetwork = "network.jsonl";
constexpr const char* kSummary = "summary.json";

// A run that was cut off may be written over; anybody else's files may not.
bool holds_something_else(const std::filesystem::path& folder) {
  std::error_code nothing_there;
  const auto entries = std::filesystem::directory_iterator(folder, nothing_there);
  return entries != std::filesystem::directory_iterator() &&
         !(std::filesystem::exists(folder / kMetrics) &&
           std::filesystem::exists(folder / kNetwork));
}

// The lines of a file whose step is not after that one.
std::string rows_up_to(const std::filesystem::path& file, std::uint64_t step) {
  std::ifstream stream(file);
  std::string kept;
  for (std::string line; std::getline(stream, line);) {
    const nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object() && number_in(row, "step") <= static_cast<double>(step)) kept += line + "\n";
  }
  return kept;
}

}  // namespace

bool holds_finished_run(const std::filesystem::path& folder) {
  std::ifstream summary(folder / kSummary);
  return summary && !run_summary_in(nlohmann::json::parse(summary, nullptr, false)).ended;
}

void RunFolder::set(const Settings& settings) {
  write_whole_file(path_ / "settings.toml", write_settings(settings));
}

RunFolder::RunFolder(std::filesystem::path path, const Settings& settings)
    : path_(std::move(path)) {
  if (holds_finished_run(path_)) {
    throw Error(fmt::format("{} holds a finished run", path_.string()),
                "choose another folder with --run");
  }
  if (holds_something_else(path_)) {
    throw Error(fmt::format("{} is not empty, and no run of Starling's", path_.string()),
                "name a new folder with --run");
  }
  std::error_code error;
  created_ = std::filesystem::create_directories(path_, error);
  if (error) {
    throw Error(fmt::format("cannot make the folder {}: {}", path_.string(), error.message()),
                "choose another one with --run");
  }
  // These first: by them another machine knows a folder that all of them see.
  open_files(std::ios::trunc);
  set(settings);
  // Those of a run that was cut off here before.
  for (const char* name : {kSummary, "model.safetensors"}) std::filesystem::remove(path_ / name);
  std::filesystem::remove_all(path_ / "checkpoints", error);
  TensorBoardLog::remove_from(path_);
  tensorboard_.emplace(path_);
}

RunFolder::RunFolder(std::filesystem::path path, const Settings& settings,
                     std::uint64_t resumed_step)
    : path_(std::move(path)), used_(true) {
  write_whole_file(path_ / kMetrics, rows_up_to(path_ / kMetrics, resumed_step));
  open_files(std::ios::app);
  set(settings);
  for (const char* name : {kSummary, "model.safetensors"}) std::filesystem::remove(path_ / name);
  tensorboard_.emplace(path_);
}

void RunFolder::open_files(std::ios::openmode mode) {
  for (const auto& [file, name] : {std::pair{&metrics_, kMetrics}, {&network_, kNetwork}}) {
    if (mode == std::ios::trunc) std::ofstream(path_ / name, mode);
    // Launchers that share the folder add to the same files.
    file->open(path_ / name, std::ios::out | std::ios::app);
    if (!*file) {
      throw Error(fmt::format("cannot write {}: {}", (path_ / name).string(), ::strerror(errno)),
                  "choose another folder with --run");
    }
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
    append(metrics_, kMetrics, row);
    step_ = static_cast<std::int64_t>(number_in(event, "step"));
    log_scalar("loss/training", event, "loss");
    log_scalar("loss/test", event, "test_loss");
    log_scalar("accuracy/test", event, "accuracy");
    log_scalar("workers/spread", event, "spread");
    log_scalar("speed/samples_per_second", event, "samples_per_second");
  } else if (kind == "network") {
    row["rank"] = rank;
    append(network_, kNetwork, row);
    const nlohmann::json sent = {{"sent", wire_in(event.value("sent", nlohmann::json()))}};
    log_scalar(fmt::format("bytes_sent/rank_{}", rank), sent, "sent");
  }
}

void RunFolder::append(std::ofstream& file, const char* name, const nlohmann::json& row) {
  file << row.dump() << "\n" << std::flush;
  if (!file) {
    miss(fmt::format("{} is not complete: {}", (path_ / name).string(), ::strerror(errno)));
  }
}

void RunFolder::miss(const std::string& what) {
  if (missing_.empty()) missing_ = what;
}

void RunFolder::log_scalar(const std::string& tag, const nlohmann::json& event, const char* key) {
  if (!event.contains(key) || !event[key].is_number()) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  tensorboard_->scalar(tag, event[key].get<double>(), step_,
                       std::chrono::duration<double>(now).count());
  if (!tensorboard_->is_complete()) {
    miss(fmt::format("the TensorBoard log in {} is not complete: {}", path_.string(),
                     ::strerror(errno)));
  }
}

void RunFolder::finish(const RunSummary& summary) {
  used_ = true;
  if (const StalenessSummary* seen = summary.staleness(); seen && seen->histogram) {
    std::string histogram = fmt::format("staleness,{}\n", summary.servers ? "gradients" : "models");
    std::size_t staleness = 0;
    for (const std::uint64_t count : *seen->histogram) {
      histogram += fmt::format("{},{}\n", staleness++, count);
    }
    write_whole_file(path_ / "staleness.csv", histogram);
  }
  write_whole_file(path_ / kSummary, as_json(summary).dump(2) + "\n");
  if (!missing_.empty()) throw Error(missing_, "the model and summary.json are");
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
