#include "job/past.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "job/checkpoint.h"
#include "strategy/grid.h"
#include "strategy/server_plan.h"

namespace starling {

namespace {

// Machines that share a folder have a manifest each.
Manifest whole_manifest(const std::filesystem::path& file) {
  Manifest manifest = read_manifest(file);
  for (const std::filesystem::path& other : manifests_in(file.parent_path())) {
    if (other == file) continue;
    const Manifest beside = read_manifest(other);
    if (beside.number != manifest.number || beside.workers != manifest.workers) continue;
    for (const StateFile& each : beside.files) {
      if (manifest.find(each.rank) == nullptr) manifest.files.push_back(each);
    }
  }
  return manifest;
}

// The settings that the checkpoint was made with.
Settings settings_then(Settings settings, const Manifest& manifest) {
  settings.workers = manifest.workers;
  if (manifest.servers > 0) settings.server.servers = manifest.servers / settings.parallel.slices();
  return settings;
}

const std::vector<std::byte>* find_part(const Snapshot& snapshot, const std::string& name) {
  const auto found = snapshot.parts.find(name);
  return found == snapshot.parts.end() ? nullptr : &found->second.bytes;
}

std::vector<std::byte> as_floats(const std::vector<double>& sum, double divisor) {
  std::vector<float> values;
  values.reserve(sum.size());
  for (const double each : sum) values.push_back(static_cast<float>(each / divisor));
  const ConstBytes bytes = bytes_of(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// Counts, or yes and no, as they are in memory.
bool is_less(const std::vector<std::byte>& one, const std::vector<std::byte>& other) {
  return std::lexicographical_compare(one.rbegin(), one.rend(), other.rbegin(), other.rend());
}

}  // namespace

void MergedPast::add_to_mean(std::vector<double>& sum, const std::vector<std::byte>& floats,
                             double weight) {
  if (sum.empty()) sum.resize(floats.size() / sizeof(float));
  if (floats.size() != sum.size() * sizeof(float)) {
    throw Error("the files of the checkpoint are not of one model");
  }
  for (std::size_t i = 0; i < sum.size(); ++i) {
    float value = 0;
    std::memcpy(&value, floats.data() + i * sizeof(float), sizeof value);
    sum[i] += weight * static_cast<double>(value);
  }
}

void MergedPast::add(const Snapshot& worker) {
  float share = 1;
  State::restoring(worker)(kShareState, share);
  const std::vector<std::byte>* final = find_part(worker, kFinalState);
  const std::vector<std::byte>* weights = final ? final : find_part(worker, kWeightsState);
  if (weights == nullptr) throw Error("a file of the checkpoint has no weights");
  add_to_mean(weights_, *weights, share);
  shares_ += share;
  for (const auto& [name, part] : worker.parts) {
    if (part.shared) {
      shared_.parts.try_emplace(name, part);
    } else if (name.starts_with(std::string(kOptimizerState) + "/")) {
      if (name.find("/single/") == std::string::npos) {
        add_to_mean(optimizer_[name], part.bytes, 1);
      } else if (is_less(single_[name], part.bytes)) {
        single_[name] = part.bytes;
      }
    }
  }
  ++workers_;
}

Snapshot MergedPast::result() const {
  Snapshot merged = shared_;
  merged.partial = true;
  if (!(shares_ > 0)) throw Error("nobody's model in the checkpoint counts");
  merged.parts[kWeightsState].bytes = as_floats(weights_, shares_);
  for (const auto& [name, sum] : optimizer_) merged.parts[name].bytes = as_floats(sum, workers_);
  for (const auto& [name, largest] : single_) merged.parts[name].bytes = largest;
  return merged;
}

std::optional<Snapshot> load_past(const Job& job, const Settings& settings,
                                  const std::function<void(const Snapshot&)>& each) {
  if (job.resume.empty()) return std::nullopt;
  const std::filesystem::path folder = std::filesystem::path(job.resume).parent_path();
  const Manifest manifest = whole_manifest(job.resume);
  const bool as_many =
      manifest.workers == settings.workers && manifest.servers == server_processes(settings);
  const StateFile* own = manifest.find(job.rank);
  const bool of_all =
      manifest.files.size() == static_cast<std::size_t>(manifest.workers + manifest.servers);
  const bool of_one_machine = job.resume.find("-machine-") != std::string::npos;
  if (as_many && own != nullptr && (of_all || of_one_machine)) {
    Snapshot snapshot = read_state_file(folder, *own);
    if (each) each(snapshot);
    return snapshot;
  }
  const Settings then = settings_then(settings, manifest);
  const bool works = job.rank < settings.workers;
  MergedPast workers;
  Snapshot servers;
  servers.partial = true;
  for (int rank = 0; rank < manifest.workers + manifest.servers; ++rank) {
    if ((rank < manifest.workers) != works ||
        slice_of(then, rank) != slice_of(settings, job.rank)) {
      continue;
    }
    const StateFile* file = manifest.find(rank);
    if (file == nullptr) continue;  // it was lost before
    const Snapshot snapshot = read_state_file(folder, *file);
    if (!works) {
      servers.parts.merge(snapshot.shared().parts);
      continue;
    }
    if (each) each(snapshot);
    workers.add(snapshot);
  }
  return works ? workers.result() : servers;
}

}  // namespace starling
