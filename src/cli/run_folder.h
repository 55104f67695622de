// The run folder: everything one training leaves behind.
//
//   settings.toml      what was asked for
//   metrics.jsonl      step, epoch, loss, time; accuracy where it was evaluated
//   network.jsonl      each second, each worker's bytes in and out by purpose
//   model.safetensors  the final model, the mean of all workers'
//   events.out.tfevents.*  the metrics once more, for TensorBoard
//   timeline.json      with --timeline: what each worker did when, for Perfetto
//   staleness.csv      how many gradients (with servers) or models (mixing weights) were how stale
//   summary.json       the result in one object
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "report/tensorboard.h"
#include "strategy/settings.h"

namespace starling {

class RunFolder {
 public:
  // Creates the folder and writes the settings. Throws Error if it holds a finished run already.
  RunFolder(std::filesystem::path path, const Settings& settings);
  // A run that failed before anything happened leaves no folder behind.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Files a worker's event, if it is of a kind that is kept.
  void record(int rank, const nlohmann::json& event);
  void finish(const nlohmann::json& summary);

  const std::filesystem::path& path() const { return path_; }

 private:
  void log_scalar(const std::string& tag, const nlohmann::json& event, const char* key);

  std::filesystem::path path_;
  bool created_ = false;
  bool used_ = false;
  std::ofstream metrics_;
  std::ofstream network_;
  std::optional<TensorBoardLog> tensorboard_;
  std::int64_t step_ = 0;  // of the lead, when it last reported
};

// runs/2026-01-31-120000-WHAT, or with a number behind it if that exists.
std::filesystem::path fresh_run_path(const std::string& what);

}  // namespace starling
