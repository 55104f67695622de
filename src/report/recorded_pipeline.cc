#include "report/recorded_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/run_data.h"
#include "strategy/grid.h"

namespace starling {

namespace {

using nlohmann::json;

// When a rank computed, one way or the other.
struct Spans {
  std::vector<std::pair<double, double>> forward, backward;
};

// Throws json::exception where a field is not of its type.
std::map<int, Spans> spans_in(const std::filesystem::path& file) {
  const json timeline = json::parse(text_of(file), nullptr, false);
  std::map<int, Spans> spans;
  if (!timeline.is_object() || !timeline.contains("traceEvents")) return spans;
  for (const json& event : timeline["traceEvents"]) {
    if (!event.is_object()) continue;
    if (event.value("cat", "") != "compute" || event.value("ph", "") != "X") continue;
    const std::string name = event.value("name", "");
    Spans& of_rank = spans[event.value("pid", 0)];
    const double begin = event.value("ts", 0.0) * 1e-6;
    const std::pair span(begin, begin + event.value("dur", 0.0) * 1e-6);
    if (name == "forward") of_rank.forward.push_back(span);
    if (name == "backward") of_rank.backward.push_back(span);
  }
  for (auto& [rank, each] : spans) {
    std::ranges::sort(each.forward);
    std::ranges::sort(each.backward);
  }
  return spans;
}

}  // namespace

RecordedPipeline read_pipeline(const std::filesystem::path& run_folder) {
  const auto refuse = [&](const char* why, const char* remedy) {
    throw Error(fmt::format("{} {}", run_folder.string(), why), remedy);
  };
  RecordedPipeline recorded;
  read_settings(read_run(run_folder).settings, (run_folder / "settings.toml").string(),
                recorded.settings);
  const ParallelSettings& parallel = recorded.settings.parallel;
  if (parallel.pipeline == 1)
    refuse("is of no pipeline", "name the folder of a run with --pipeline");
  if (!std::filesystem::exists(run_folder / "timeline.json")) {
    refuse("has no timeline", "record one with starling train --timeline");
  }
  std::map<int, Spans> spans;
  try {
    spans = spans_in(run_folder / "timeline.json");
  } catch (const json::exception&) {
    refuse("has a timeline that is not one of ours", "record one with starling train --timeline");
  }

  const auto m = static_cast<std::size_t>(parallel.micro_batches);
  std::size_t steps = std::numeric_limits<std::size_t>::max();
  for (int stage = 0; stage < parallel.pipeline; ++stage) {
    const Spans& each = spans[worker_at(recorded.settings, {0, stage, 0})];
    steps = std::min({steps, each.forward.size() / m, each.backward.size() / m});
  }
  if (steps == 0) refuse("has no whole step on its timeline", "train for longer");
  recorded.step = static_cast<int>(steps / 2);

  double first = std::numeric_limits<double>::infinity();
  for (int stage = 0; stage < parallel.pipeline; ++stage) {
    const Spans& each = spans[worker_at(recorded.settings, {0, stage, 0})];
    std::size_t ahead = steps / 2 * m, back = ahead;
    std::vector<TimedTurn>& row = recorded.timetable.emplace_back();
    for (const Turn& turn :
         turns_of(parallel.schedule, stage, parallel.pipeline, parallel.micro_batches)) {
      const auto [begin, end] =
          turn.kind == Turn::Kind::forward ? each.forward[ahead++] : each.backward[back++];
      row.push_back({turn, begin, end});
      first = std::min(first, begin);
    }
  }
  for (auto& row : recorded.timetable) {
    for (TimedTurn& turn : row) {
      turn.begin -= first;
      turn.end -= first;
    }
  }
  return recorded;
}

}  // namespace starling
