#include "report/checkpoint_shelf.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

#include "base/error.h"
#include "base/whole_file.h"

namespace starling {

namespace {

std::uint64_t number_of(const std::filesystem::path& manifest) {
  try {
    return read_manifest(manifest).number;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

CheckpointShelf::CheckpointShelf(Options options)
    : options_(std::move(options)), last_(options_.resumed) {
  for (const int rank : options_.ranks) places_[rank] = {generation_, rank};
  std::error_code ignored;
  for (const std::filesystem::path& manifest : manifests_in(options_.folder)) {
    if (number_of(manifest) > last_) std::filesystem::remove(manifest, ignored);
  }
  clear_up();
  if (options_.machines > 1) return;  // another one may be writing
  for (const auto& entry : std::filesystem::directory_iterator(options_.folder, ignored)) {
    if (entry.path().extension() == ".tmp") std::filesystem::remove(entry.path(), ignored);
  }
}

void CheckpointShelf::take_generation(int launched, const nlohmann::json& event) {
  try {
    const auto generation = event.at("generation").get<std::uint64_t>();
    places_[launched] = {generation, event.at("rank").get<int>()};
    if (generation <= generation_) return;
    options_.workers = event.at("workers").get<int>();
    options_.servers = event.at("servers").get<int>();
    generation_ = generation;
  } catch (const nlohmann::json::exception&) {  // the program may be anybody's
    return;
  }
  at_step_.clear();
  newest_.clear();
  is_new_.clear();
}

std::string CheckpointShelf::take(const nlohmann::json& event) {
  const auto refused = [&](const std::string& why) {
    if (std::exchange(failed_, true)) return std::string();
    return fmt::format(
        "note: there is no checkpoint of step {}: {}; the training goes on, and those before are "
        "kept",
        event.value("step", 0), why);
  };
  try {
    if (event.contains("error")) return refused(event["error"].get<std::string>());
    const StateFile file = state_file_in(event);
    const std::set<int> all = here();
    const bool counts =
        event.value("generation", generation_) == generation_ && all.contains(file.rank);
    if (!counts) return "";
    if (options_.in_step) {
      auto& files = at_step_[file.step];
      files[file.rank] = file;
      if (std::ranges::includes(std::views::keys(files), all)) complete(file.step, files);
    } else {
      newest_[file.rank] = file;
      is_new_.insert(file.rank);
      if (!std::ranges::includes(is_new_, all)) return "";
      std::map<int, StateFile> files;
      for (const int rank : all) files[rank] = newest_[rank];
      complete(last_ + 1, files);
      is_new_.clear();
    }
  } catch (const std::exception& error) {
    return refused(error.what());
  }
  return "";
}

void CheckpointShelf::leave(int launched) {
  if (!options_.in_step) places_.erase(launched);
}

std::set<int> CheckpointShelf::here() const {
  std::set<int> ranks;
  for (const auto& [launched, place] : places_) {
    if (place.generation == generation_) ranks.insert(place.rank);
  }
  return ranks;
}

void CheckpointShelf::complete(std::uint64_t number, const std::map<int, StateFile>& files) {
  Manifest manifest{number, options_.workers, options_.servers, {}};
  for (const auto& [rank, file] : files) manifest.files.push_back(file);
  write_whole_file(options_.folder / manifest_name(number, options_.machine, options_.machines),
                   as_text(manifest));
  last_ = number;
  begun_ = true;
  failed_ = false;
  std::erase_if(at_step_, [&](const auto& each) { return each.first <= number; });
  clear_up();
}

// What a rank has written and not told of yet is newer than all that it has told of.
bool CheckpointShelf::may_go(const StateFile& file) const {
  if (options_.machines > 1 && !here().contains(file.rank)) return false;
  if (!begun_) return true;
  if (options_.in_step) return file.step <= last_;
  const auto told = newest_.find(file.rank);
  return told != newest_.end() && file.step <= told->second.step;
}

// Files of ours that no manifest which stays names, and that none will.
void CheckpointShelf::clear_up() {
  std::error_code ignored;
  std::set<std::string> needed;
  for (const auto& [step, files] : at_step_) {
    for (const auto& [rank, file] : files) needed.insert(file.name);
  }
  for (const auto& [rank, file] : newest_) needed.insert(file.name);
  int kept = 0;
  for (const std::filesystem::path& path : manifests_in(options_.folder)) {
    const std::string suffix = manifest_name(0, options_.machine, options_.machines).substr(10);
    // Where workers come and go, another machine may have had one of our ranks.
    const bool ours = path.filename().string().ends_with(suffix);
    if (ours && ++kept > options_.keep) {
      std::filesystem::remove(path, ignored);
      continue;
    }
    try {
      for (const StateFile& file : read_manifest(path).files) needed.insert(file.name);
    } catch (const Error&) {
      if (ours) throw;  // another may have been removed just now
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(options_.folder, ignored)) {
    const auto file = state_file_named(entry.path().filename().string());
    if (file && !needed.contains(file->name) && may_go(*file)) {
      std::filesystem::remove(entry.path(), ignored);
    }
  }
}

namespace {

// Where machines share a folder, each has a manifest of its own there, and a checkpoint is whole if they
// name the files of all between them. Who finds only one machine's can ask for no more.
bool is_of_all(const Manifest& manifest, const std::vector<Manifest>& all) {
  const auto files_of = [&](std::uint64_t number, int workers) {
    std::set<int> ranks;
    for (const Manifest& each : all) {
      if (each.number != number || each.workers != workers) continue;
      for (const StateFile& file : each.files) ranks.insert(file.rank);
    }
    return ranks.size();
  };
  const bool shared = std::ranges::any_of(all, [&](const Manifest& each) {
    return files_of(each.number, each.workers) > each.files.size();
  });
  const auto needed = static_cast<std::size_t>(manifest.workers + manifest.servers);
  return !shared || files_of(manifest.number, manifest.workers) >= needed;
}

}  // namespace

std::optional<std::filesystem::path> newest_checkpoint(
    const std::filesystem::path& folder, const std::function<void(const std::string&)>& say) {
  std::vector<Manifest> all;
  for (const std::filesystem::path& path : manifests_in(folder)) {
    try {
      all.push_back(read_manifest(path));
    } catch (const Error&) {  // is told of below
    }
  }
  for (const std::filesystem::path& path : manifests_in(folder)) {
    try {
      const Manifest manifest = read_manifest(path);
      if (!is_of_all(manifest, all)) throw Error(path.string() + " is without those of others");
      for (const StateFile& file : manifest.files) read_state_file(folder, file);
      return path;
    } catch (const std::exception& error) {
      say(fmt::format("note: passing over a checkpoint that is not whole: {}", error.what()));
    }
  }
  return std::nullopt;
}

}  // namespace starling
