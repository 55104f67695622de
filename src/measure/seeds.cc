#include "measure/seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace starling {

namespace {

std::string name_of_seed(const std::string& name, int seed) {
  return fmt::format("{}/seed-{}", name, seed);
}

}  // namespace

std::vector<RunSummary> measured_over_seeds(const MeasureOptions& options, const Settings& settings,
                                            const std::string& name, bool by_ddp) {
  std::vector<RunSummary> runs;
  for (int i = 0; i < options.seeds; ++i) {
    Settings seeded = settings;
    seeded.seed += i;
    runs.push_back(measured_run(options, seeded, name_of_seed(name, seeded.seed), by_ddp));
  }
  return runs;
}

std::filesystem::path seed_folder(const MeasureOptions& options, const std::string& name,
                                  int seed) {
  return options.folder / name_of_seed(name, seed);
}

double Sample::mean() const {
  STARLING_CHECK(!values.empty(), "the mean of nothing");
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Sample::deviation() const {
  if (values.size() < 2) return 0;
  double squares = 0;
  for (const double value : values) squares += (value - mean()) * (value - mean());
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double Sample::low() const { return std::ranges::min(values); }
double Sample::high() const { return std::ranges::max(values); }

Sample sample_of(const std::vector<RunSummary>& runs,
                 const std::function<double(const RunSummary&)>& number) {
  Sample sample;
  for (const RunSummary& run : runs) sample.values.push_back(number(run));
  return sample;
}

std::string format_percent(const Sample& shares) {
  if (shares.values.size() < 2) return fmt::format("{:.2f} %", shares.mean() * 100);
  return fmt::format("{:.2f} ± {:.2f} %", shares.mean() * 100, shares.deviation() * 100);
}

}  // namespace starling
