#include "measure/run_tally.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/run_data.h"
#include "strategy/mix_plan.h"

namespace starling {

using nlohmann::json;

namespace {

template <class Number>
void keep(std::optional<Number>& into, const json& event, const char* key) {
  const double value = number_in(event, key, NAN);
  if (std::isfinite(value)) into = static_cast<Number>(value);
}

// All bytes of a kind, from counts by purpose.
std::uint64_t sum_of(const json& event, const char* direction, const char* kind) {
  double sum = 0;
  const json counts = event.value(direction, json::object());
  if (!counts.is_object()) return 0;
  for (const json& purpose : counts) sum += number_in(purpose, kind);
  return static_cast<std::uint64_t>(std::max(0.0, sum));
}

}  // namespace

void RunTally::take(int rank, const json& event) {
  const std::string kind = event.value("event", "");
  if (kind == "result" && !result_) result_ = run_summary_in(event);
  if (kind == "network") take_bytes(rank, event);
  if (kind == "served" || kind == "worked") ranks_[rank] = rank_summary_in(event, role(rank), rank);
  if (kind == "progress" || kind == "evaluation" || kind == "stopped" || kind == "worked") {
    // Asynchronous workers are each at a step of their own; the furthest says how far they came.
    const double step = number_in(event, "step", -1);
    if (step >= static_cast<double>(progress_.steps.value_or(0))) {
      keep(progress_.steps, event, "step");
    }
  }
  if (kind == "progress" || kind == "evaluation" || kind == "worked") {
    keep(progress_.seconds, event, "time");
    keep(progress_.train_seconds, event, "training_time");
  }
  if (kind == "progress" || kind == "evaluation") {
    keep(progress_.epochs, event, "epoch");
    keep(progress_.samples_per_second, event, "samples_per_second");
    keep(progress_.accuracy, event, "accuracy");
    keep(progress_.loss, event, "test_loss");
  }
  if (kind == "evaluation" && !goal_step_) {
    const auto target = target_of(settings_.train);
    if (target &&
        target->reached(number_in(event, "accuracy", NAN), number_in(event, "test_loss", NAN))) {
      keep(goal_step_, event, "step");
    }
  }
  if (kind == "stopped" && (!stop_ || !stop_->error.empty())) {
    const json error = event.value("error", json());
    stop_ = {rank, error.is_string() ? error.get<std::string>() : ""};
  }
}

void RunTally::take_bytes(int rank, const json& event) {
  RankSummary& summary = ranks_[rank];
  summary.role = role(rank);
  summary.rank = rank;
  summary.payload_bytes_sent = sum_of(event, "sent", "payload");
  summary.wire_bytes_sent = sum_of(event, "sent", "wire");
  summary.payload_bytes_received = sum_of(event, "received", "payload");
  summary.wire_bytes_received = sum_of(event, "received", "wire");
}

RunSummary RunTally::summary() const {
  RunSummary summary = result_.value_or(progress_);
  summary.goal_step = goal_step_;
  for (const auto& [rank, told] : ranks_) {
    // The lead has told of the workers.
    if (!result_ || role(rank) == RankSummary::Role::server) summary.ranks.push_back(told);
  }
  summary.strategy = name_of(settings_.strategy);
  summary.workers = settings_.workers;
  if (is_mix(settings_)) {
    summary.schedule = name_of(settings_.schedule.kind);
    summary.graph = name_of(graph_kind(settings_));
    summary.spectral_gap = graph_gap(settings_);
  }
  return summary;
}

}  // namespace starling
