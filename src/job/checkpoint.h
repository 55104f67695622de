// Checkpoints: what the ranks of a run keep on disk, so that it can go on when all of them are gone.
//
//   RUN/checkpoints/step-1200-rank-2.state  what one rank must not lose (base/state.h)
//   RUN/checkpoints/0000001200.json         a manifest: the files that are one checkpoint
//
//   A. Between two steps a rank copies its state, and a thread writes it while training goes on.
//   B. The rank tells its launcher the name of the file, how long it is, and its SHA-256.
//   C. When every rank has, the launcher writes the manifest, and removes what is older than the last
//      few (report/checkpoint_shelf.h).
//
// Every file is written beside its place, synced, and moved there (base/whole_file.h), and a manifest
// names only files that are safe: whoever is killed, and whenever, the checkpoints before stay whole.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/state.h"
#include "job/job.h"

namespace starling {

// One rank's file.
struct StateFile {
  int rank = 0;
  std::uint64_t step = 0;  // that it had done
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;  // of all bytes, in hexadecimal

  bool operator==(const StateFile&) const = default;
};

StateFile write_state_file(const std::filesystem::path& folder, int rank, std::uint64_t step,
                           const Snapshot& snapshot);
// Throws Error, in one line, if the file is not there or not what it was.
Snapshot read_state_file(const std::filesystem::path& folder, const StateFile& file);
// Whose state a file has, and after which step, if it is one by its name.
std::optional<StateFile> state_file_named(const std::string& name);

struct Manifest {
  std::uint64_t number = 0;  // manifests of a run count up
  int workers = 0;
  int servers = 0;  // processes of their own
  std::vector<StateFile> files;

  // The largest step in it.
  std::uint64_t step() const;
  const StateFile* find(int rank) const;
  bool operator==(const Manifest&) const = default;
};

std::string manifest_name(std::uint64_t number, int machine, int machines);
std::string as_text(const Manifest& manifest);
// Throws Error, in one line.
Manifest read_manifest(const std::filesystem::path& file);
// Those in a folder, the newest first. A folder that is not there has none.
std::vector<std::filesystem::path> manifests_in(const std::filesystem::path& folder);

nlohmann::json as_json(const StateFile& file);
// Throws Error if it is none, or if its name is not that of a file beside the manifest.
StateFile state_file_in(const nlohmann::json& said);

// Writes one rank's checkpoints beside its work, one at a time, and tells the launcher of each, or why
// there is none.
class CheckpointWriter {
 public:
  CheckpointWriter(Job job, std::filesystem::path folder);
  // Waits until what it has is written.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Of this rank in that generation (1 where there are none). If the one before is still being
  // written, this one waits, and takes the place of one that has waited.
  void write(std::uint64_t step, int rank, std::uint64_t generation, Snapshot snapshot);

 private:
  struct Pending {
    std::uint64_t step;
    int rank;
    std::uint64_t generation;
    Snapshot snapshot;
  };
  void run();
  void keep(const Pending& pending) const;

  Job job_;
  std::filesystem::path folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Pending> pending_;
  bool over_ = false;
  std::thread thread_;  // the last to be made
};

}  // namespace starling
