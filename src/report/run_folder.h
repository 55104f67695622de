// The run folder: everything one training leaves behind.
//
//   settings.toml      what was asked for
//   metrics.jsonl      step, epoch, loss, time; accuracy where it was evaluated
//   network.jsonl      each second, each worker's bytes in and out by purpose
//   model.safetensors  the final model, the mean of all workers'
//   events.out.tfevents.*  the metrics once more, for TensorBoard
//   checkpoints/       with --checkpoint-every: what it takes to go on (job/checkpoint.h)
//   timeline.json      with --timeline: what each worker did when, for Perfetto
//   staleness.csv      how many gradients (with servers) or models (mixing weights) were how stale
//   summary.json       the result in one object, also of a run that was interrupted or failed
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "job/run_summary.h"
#include "report/tensorboard.h"
#include "strategy/settings.h"

namespace starling {

class RunFolder {
 public:
  // Creates the folder and writes the settings. Throws Error if it holds a finished run already,
  // or anything that is no run.
  RunFolder(std::filesystem::path path, const Settings& settings);
  // Goes on with the run that is there, after that step: what was written of later ones goes.
  RunFolder(std::filesystem::path path, const Settings& settings, std::uint64_t resumed_step);
  // A run that failed before anything happened leaves no folder behind.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // In place of those before: a program has its own.
  void set(const Settings& settings);
  // Files a worker's event, if it is of a kind that is kept. What cannot be written is lost, and
  // missing() says so: a full disk should not end a training.
  void record(int rank, const nlohmann::json& event);
  // Throws Error if the summary cannot be written, or, when it has been, if something else is
  // missing.
  void finish(const RunSummary& summary);

  // Whether anything has happened.
  bool used() const { return used_; }
  // Remembers the first thing that is not as complete as it should be.
  void miss(const std::string& what);
  const std::string& missing() const { return missing_; }

  const std::filesystem::path& path() const { return path_; }

 private:
  void open_files(std::ios::openmode mode);
  void append(std::ofstream& file, const char* name, const nlohmann::json& row);
  void log_scalar(const std::string& tag, const nlohmann::json& event, const char* key);

  std::filesystem::path path_;
  bool created_ = false;
  bool used_ = false;
  std::ofstream metrics_;
  std::ofstream network_;
  std::optional<TensorBoardLog> tensorboard_;
  std::int64_t step_ = 0;  // of the lead, when it last reported
  std::string missing_;
};

// Whether a run there has come to its end.
bool holds_finished_run(const std::filesystem::path& folder);

// runs/2026-01-31-120000-WHAT, or with a number behind it if that exists.
std::filesystem::path fresh_run_path(const std::string& what);

}  // namespace starling
