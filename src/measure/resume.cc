#include "measure/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "report/checkpoint_shelf.h"
#include "report/run_data.h"
#include "report/run_folder.h"

namespace starling {

namespace {

// What leaves a training the same, whatever it is: for how long, who does it, and what is seen of it.
constexpr std::array<std::string_view, 12> kMayChange = {
    "workers", "servers",        "epochs",           "steps",
    "until",   "evaluate_every", "checkpoint_every", "keep_checkpoints",
    "slow",    "data_folder",    "min_workers",      "max_workers"};

std::string value_of(const Settings& settings, const std::string& name) {
  std::istringstream lines(write_settings(settings));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + " = ")) return line.substr(name.size() + 3);
  }
  return "";
}

bool adds_work(const Settings& then, const Settings& now) {
  if (now.train.steps > 0) return now.train.steps > then.train.steps;
  return then.train.steps > 0 || now.train.epochs > then.train.epochs;
}

}  // namespace

Settings settings_of_run(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "settings.toml";
  std::ifstream stream(file);
  if (!stream) {
    throw Error(fmt::format("there is no run in {}", folder.string()),
                "name the folder that it was told to write, such as those under runs/");
  }
  std::stringstream text;
  text << stream.rdbuf();
  Settings settings;
  read_settings(text.str(), file.string(), settings);
  return settings;
}

void check_resumed(const std::filesystem::path& folder, const Settings& then, const Settings& now) {
  for (const std::string& name : different_settings(then, now)) {
    if (std::ranges::count(kMayChange, name) > 0) continue;
    throw Error(fmt::format("{} = {} would make another training of {}, where it is {}", name,
                            value_of(now, name), folder.string(), value_of(then, name)),
                "leave it out, or begin a new run");
  }
  if (now.copies() != then.copies() && now.train.shards != TrainSettings::Shards::even) {
    throw Error(
        fmt::format("the samples of {} belong to its {} workers", folder.string(), then.copies()),
        "go on with as many");
  }
  if (holds_finished_run(folder) && !adds_work(then, now)) {
    throw Error(fmt::format("{} has come to its end", folder.string()),
                "give it more --epochs to go on");
  }
}

bool has_checkpoint(const std::filesystem::path& folder) {
  return newest_checkpoint(folder / kCheckpointFolder, [](const std::string&) {}).has_value();
}

std::filesystem::path checkpoint_to_resume(const std::filesystem::path& folder) {
  const auto found = newest_checkpoint(folder / kCheckpointFolder, [](const std::string& line) {
    fmt::print(stderr, "{}\n", line);
  });
  if (!found) {
    throw Error(fmt::format("{} has no checkpoint that is whole", folder.string()),
                "runs keep them with --checkpoint-every");
  }
  return std::filesystem::absolute(*found);
}

}  // namespace starling
