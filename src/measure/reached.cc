#include "measure/reached.h"

#include <fmt/format.h>

namespace starling {

Reached::Reached(const Subject& subject, const std::vector<RunSummary>& all) : runs(all.size()) {
  for (const RunSummary& run : all) {
    const auto steps_taken = static_cast<double>(run.steps.value_or(0));
    all_steps.values.push_back(steps_taken);
    if (!subject.reached_by(run)) continue;
    seconds.values.push_back(run.train_seconds.value_or(0));
    steps.values.push_back(steps_taken);
    samples.values.push_back(static_cast<double>(run.samples.value_or(0)));
    bytes.values.push_back(run.sum(&RankSummary::training_bytes_sent));
  }
}

std::optional<double> Reached::mean(Sample Reached::*of) const {
  const Sample& sample = this->*of;
  return sample.values.empty() ? std::nullopt : std::optional(sample.mean());
}

std::string Reached::text(
    const Sample& of,
    const std::function<std::string(double mean, double deviation)>& format) const {
  if (of.values.empty()) return "did not get there";
  return format(of.mean(), of.deviation()) +
         (all() ? "" : fmt::format(" ({} of {})", count(), runs));
}

std::string describe(const Target& goal, const Subject& subject) {
  if (goal.measure == Target::Measure::accuracy) return fmt::format("{:g} %", goal.value * 100);
  return fmt::format("{:g} {}", goal.value, subject.is_text() ? "bits per character" : "nats");
}

}  // namespace starling
