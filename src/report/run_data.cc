#include "report/run_data.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "base/error.h"

namespace starling {

namespace {

using nlohmann::json;

constexpr std::uintmax_t kMostBytes = 256 << 20;

}  // namespace

std::string text_of(const std::filesystem::path& file) {
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(file, missing);
  if (missing) return "";
  if (bytes > kMostBytes) {
    throw Error(fmt::format("{} is too large for a report", file.string()),
                "cut it down, or leave the run out");
  }
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

namespace {

std::vector<json> objects_in(const std::filesystem::path& file) {
  std::istringstream lines(text_of(file));
  std::vector<json> objects;
  for (std::string line; std::getline(lines, line);) {
    json object = json::parse(line, nullptr, false);
    if (object.is_object()) objects.push_back(std::move(object));
  }
  return objects;
}

}  // namespace

RunData read_run(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / "settings.toml")) {
    throw Error(fmt::format("{} is no run folder", folder.string()),
                "name one that `starling train` has made, e.g. from runs/");
  }
  RunData run;
  const std::filesystem::path whole = std::filesystem::absolute(folder).lexically_normal();
  run.name = whole.has_filename() ? whole.filename() : whole.parent_path().filename();
  run.label = run.name;
  run.settings = text_of(folder / "settings.toml");
  run.summary = run_summary_in(json::parse(text_of(folder / "summary.json"), nullptr, false));
  run.metrics = objects_in(folder / "metrics.jsonl");
  run.network = objects_in(folder / "network.jsonl");
  return run;
}

double number_in(const json& object, const char* key, double fallback) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_number() ? found->get<double>() : fallback;
}

double wire_in(const json& counts) {
  double sum = 0;
  if (!counts.is_object()) return sum;
  for (const json& purpose : counts) sum += number_in(purpose, "wire");
  return sum;
}

}  // namespace starling
