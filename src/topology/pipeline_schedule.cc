#include "topology/pipeline_schedule.h"

#include <algorithm>
#include <optional>

#include "base/check.h"

namespace starling {

std::vector<Turn> turns_of(PipelineSchedule schedule, int stage, int stages, int micro_batches) {
  using enum Turn::Kind;
  std::vector<Turn> turns;
  switch (schedule) {
    case PipelineSchedule::naive:
      for (int i = 0; i < micro_batches; ++i) {
        turns.push_back({forward, i});
        turns.push_back({backward, i});
      }
      break;
    case PipelineSchedule::gpipe:
      for (int i = 0; i < micro_batches; ++i) turns.push_back({forward, i});
      for (int i = micro_batches - 1; i >= 0; --i) turns.push_back({backward, i});
      break;
    case PipelineSchedule::one_f_one_b: {
      const int ahead =
          std::min(micro_batches, stages - 1 - stage);  // before a gradient can be back
      for (int i = 0; i < ahead; ++i) turns.push_back({forward, i});
      for (int i = 0; i < micro_batches; ++i) {
        if (ahead + i < micro_batches) turns.push_back({forward, ahead + i});
        turns.push_back({backward, i});
      }
      break;
    }
  }
  return turns;
}

int most_kept(std::span<const Turn> turns) {
  int kept = 0, most = 0;
  for (const Turn& turn : turns) {
    kept += turn.kind == Turn::Kind::forward ? 1 : -1;
    most = std::max(most, kept);
  }
  return most;
}

int recomputed(std::span<const Turn> turns) {
  int count = 0;
  for (std::size_t i = 0; i + 1 < turns.size(); ++i) {
    const bool goes_forward = turns[i].kind == Turn::Kind::forward;
    if (goes_forward && turns[i + 1] != Turn{Turn::Kind::backward, turns[i].micro_batch}) ++count;
  }
  return count;
}

// A turn begins when its stage is free and what it needs is there: the activations of the stage
// before, or the gradient of the stage behind.
std::vector<std::vector<TimedTurn>> timetable(PipelineSchedule schedule,
                                              std::span<const StageCost> stages,
                                              int micro_batches) {
  using enum Turn::Kind;
  const auto p = static_cast<int>(stages.size());
  const auto m = static_cast<std::size_t>(micro_batches);
  std::vector<std::vector<Turn>> turns;
  for (int stage = 0; stage < p; ++stage) {
    turns.push_back(turns_of(schedule, stage, p, micro_batches));
  }
  using Ends = std::vector<std::vector<std::optional<double>>>;  // of each stage's micro-batches
  Ends forward_ends(stages.size(), std::vector<std::optional<double>>(m));
  Ends backward_ends = forward_ends;
  std::vector<std::vector<TimedTurn>> table(stages.size());

  const auto ready_at = [&](std::size_t stage, const Turn& turn) -> std::optional<double> {
    const auto micro = static_cast<std::size_t>(turn.micro_batch);
    const auto behind = [](std::optional<double> end, double link) -> std::optional<double> {
      return end ? std::optional(*end + link) : std::nullopt;
    };
    if (turn.kind == forward) {
      if (stage == 0) return 0;
      return behind(forward_ends[stage - 1][micro], stages[stage - 1].link_seconds);
    }
    if (stage + 1 == stages.size()) return forward_ends[stage][micro];
    return behind(backward_ends[stage + 1][micro], stages[stage].link_seconds);
  };

  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      while (table[stage].size() < turns[stage].size()) {
        const Turn& turn = turns[stage][table[stage].size()];
        const std::optional<double> ready = ready_at(stage, turn);
        if (!ready) break;
        const double begin = std::max(*ready, table[stage].empty() ? 0 : table[stage].back().end);
        const double end = begin + (turn.kind == forward ? stages[stage].forward_seconds
                                                         : stages[stage].backward_seconds);
        table[stage].push_back({turn, begin, end});
        (turn.kind == forward ? forward_ends
                              : backward_ends)[stage][static_cast<std::size_t>(turn.micro_batch)] =
            end;
        moved = true;
      }
    }
  }
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    STARLING_CHECK(table[stage].size() == turns[stage].size(), "stage {} waits for ever", stage);
  }
  return table;
}

double bubble(std::span<const std::vector<TimedTurn>> timetable) {
  double end = 0, busy = 0;
  for (const auto& stage : timetable) {
    for (const TimedTurn& turn : stage) {
      end = std::max(end, turn.end);
      busy += turn.end - turn.begin;
    }
  }
  return end > 0 ? 1 - busy / (end * static_cast<double>(timetable.size())) : 0;
}

}  // namespace starling
