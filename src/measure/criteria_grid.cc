// starling measure --grid criteria: the seven criteria that the survey holds systems against, each as
// a number that was measured here.
//
//   convergence         the model's quality after the same samples, relative to one process's
//   straggler           the share of its pace that is kept with one worker five times slower, in the
//                       simulator
//   network             bytes sent in training a sample, relative to all-reduce's
//   utilisation         the share of its time that a worker does not wait in exchanges
//   reproducible        whether two runs of one seed end with the same bits, or how far they differ
//   learning rates      at how many of five, a quarter to four times its own, the model is nearly as
//                       good as one process's
//   a worker, a server  what becomes of the run when that one is killed in the midst of it
//
// A run serves several columns where it can: those of the seeds at a system's own rate are
// convergence, network and utilisation, one of the two that are to be alike, and one of the rates.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

#include "measure/broken.h"
#include "measure/chosen.h"
#include "measure/grids.h"
#include "measure/pace.h"
#include "measure/training_run.h"
#include "measure/tuning.h"

namespace starling {

namespace {

using nlohmann::json;

constexpr double kEaseFactors[] = {0.25, 0.5, 2, 4};  // beside its own rate
constexpr double kNearlyAsGood = 0.95;
constexpr double kSlowness = 5;
constexpr const char* kYardstick = "horovod";  // all-reduce

struct Judged {
  std::string name;
  Settings settings;
};

// So little that all of it takes minutes.
MeasureOptions in_short(const MeasureOptions& options) {
  MeasureOptions brief = options;
  brief.settings_over = [over = options.settings_over](Settings settings) {
    if (settings.train.steps > 0) {
      settings.train.steps = 100;
    } else {
      settings.train.samples = 10'000;
      settings.train.epochs = 2;
    }
    settings.train.evaluate_every = 0;
    return over(std::move(settings));
  };
  return brief;
}

// The same samples in one process.
Settings one_process(const Subject& subject, int workers) {
  Settings settings = subject.settings_of(Recipe{"one-process", "strategy = 'single'"}, 1);
  settings.train.steps *= workers;
  check_settings(settings);
  return settings;
}

Sample qualities(const Subject& subject, const std::vector<RunSummary>& runs) {
  return sample_of(runs, [&](const RunSummary& run) { return subject.quality(run); });
}

// 1 is as good as the other, less is worse, whichever way the measure goes.
double relative(const Subject& subject, double quality, double other) {
  return subject.is_text() ? other / quality : quality / other;
}

std::string model_in(const std::filesystem::path& folder) {
  std::ifstream file(folder / "model.safetensors", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Nothing where a model is cut among workers, which the simulator does not do.
std::optional<double> pace_kept(const Settings& settings) {
  if (settings.parallel.slices() > 1) return std::nullopt;
  Settings slowed = settings;
  slowed.slow = fmt::format("{}:{}", settings.workers - 1, kSlowness);
  return simulated_pace(slowed).batches_per_second / simulated_pace(settings).batches_per_second;
}

double bytes_a_sample(const RunSummary& run) {
  return run.sum(&RankSummary::training_bytes_sent) /
         std::max(1.0, static_cast<double>(run.samples.value_or(0)));
}

double utilisation(const RunSummary& run) {
  return 1 - run.mean_of_workers(&RankSummary::waited_seconds) / run.train_seconds.value_or(1);
}

// What becomes of a run that loses that rank on its way.
std::string after_losing(int rank, const char* who, const Judged& system,
                         const MeasureOptions& options) {
  const std::string name = fmt::format("{}/{}-killed", system.name, who);
  const std::filesystem::path folder = options.folder / name;
  std::filesystem::remove_all(folder);
  TrainingPlan plan{system.settings, folder, name};
  plan.launch.lab = options.lab;
  plan.grid = options.progress;
  plan.victim = rank;
  options.progress->begin(name);
  std::string outcome;
  try {
    const RunSummary summary = run_training(plan);
    outcome = summary.lost && !summary.lost->empty() ? "goes on" : "was over first";
  } catch (const Error&) {
    outcome = std::filesystem::exists(folder / "model.safetensors") ? "ends, model kept"
                                                                    : "ends, model lost";
  }
  options.progress->end(folder);
  return outcome;
}

bool has_server_processes(const Settings& settings) {
  return settings.strategy == StrategyKind::server &&
         settings.server.placement == ServerSettings::Placement::apart;
}

json judged(const Judged& system, const Subject& subject, double one_process_quality,
            const MeasureOptions& options) {
  const double own_rate = system.settings.optimizer.lr;
  const Tried own = tried_at(options, system.settings, system.name, own_rate, options.seeds);
  for (const RunSummary& run : own.runs) {
    if (run.ended) throw TrainingBroke(run.reason.value_or(""));
  }
  Sample convergence = qualities(subject, own.runs);
  for (double& each : convergence.values) each = relative(subject, each, one_process_quality);

  int good_rates = convergence.values.front() >= kNearlyAsGood ? 1 : 0;
  for (const double factor : kEaseFactors) {
    const Tried tried = tried_at(options, system.settings, system.name, own_rate * factor, 1);
    const double quality = qualities(subject, tried.runs).mean();
    if (relative(subject, quality, one_process_quality) >= kNearlyAsGood) ++good_rates;
  }

  const std::string again_name = system.name + "/again";
  const Tried again = tried_at(options, system.settings, again_name, own_rate, 1);
  const auto folder = [&](const std::string& name) {
    return seed_folder(options, fmt::format("{}/lr-{:g}", name, own_rate), system.settings.seed);
  };
  const std::string model = model_in(folder(system.name));
  const bool is_alike = !model.empty() && model == model_in(folder(again_name));
  const double difference =
      std::abs(subject.quality(own.runs.front()) - subject.quality(again.runs.front()));

  const int workers = system.settings.workers;
  const auto kept = pace_kept(system.settings);
  json row = {{"system", system.name},
              {"convergence", convergence.mean()},
              {"convergence_deviation", convergence.deviation()},
              {"straggler_pace_kept", kept ? json(*kept) : json()},
              {"bytes_a_sample", sample_of(own.runs, bytes_a_sample).mean()},
              {"utilisation", sample_of(own.runs, utilisation).mean()},
              {"reproducible", is_alike},
              {"difference", difference},
              {"good_rates", good_rates},
              {"rates", std::size(kEaseFactors) + 1},
              {"worker_killed", after_losing(workers - 1, "worker", system, options)},
              {"server_killed", json()}};
  if (has_server_processes(system.settings)) {
    row["server_killed"] = after_losing(workers, "server", system, options);
  }
  return row;
}

std::vector<std::string> as_cells(const json& row, const Subject& subject, bool deviates) {
  const auto percent = [](const json& share) {
    return share.is_null() ? "-" : fmt::format("{:.0f} %", share.get<double>() * 100);
  };
  const double convergence = row["convergence"], deviation = row["convergence_deviation"];
  const bool reproducible = row["reproducible"];
  return {row["system"],
          deviates ? fmt::format("{:.3f} ± {:.3f}", convergence, deviation)
                   : fmt::format("{:.3f}", convergence),
          percent(row["straggler_pace_kept"]),
          row["network"].is_null() ? "-" : fmt::format("{:.2f}", row["network"].get<double>()),
          percent(row["utilisation"]),
          reproducible ? "to the bit"
                       : fmt::format("± {}", subject.text(row["difference"].get<double>())),
          fmt::format("{} of {}", row["good_rates"].get<int>(), row["rates"].get<int>()),
          row["worker_killed"],
          row["server_killed"].is_null() ? "-" : row["server_killed"].get<std::string>()};
}

}  // namespace

MeasuredGrid measure_criteria(const MeasureOptions& asked) {
  const MeasureOptions options = in_short(asked);
  const Subject subject(options);
  const int workers = options.workers.value_or(4);
  std::vector<Judged> all;
  for (const System& system : chosen(named_systems(), options.only)) {
    all.push_back({system.name, subject.settings_of(system, workers)});
    check_settings(all.back().settings);
  }
  const Settings alone = one_process(subject, workers);
  const auto seeds = static_cast<std::size_t>(options.seeds);
  options.progress->expect(seeds + all.size() * (seeds + std::size(kEaseFactors) + 2) +
                           static_cast<std::size_t>(std::ranges::count_if(all, has_server_processes,
                                                                          &Judged::settings)));

  const double one_process_quality =
      qualities(subject, measured_over_seeds(options, alone, "one-process")).mean();
  json rows = json::array();
  std::map<std::string, TrainingBroke> broke_down;
  std::optional<double> yardstick;
  for (const Judged& each : all) {
    try {
      rows.push_back(judged(each, subject, one_process_quality, options));
      if (each.name == kYardstick) yardstick = rows.back()["bytes_a_sample"];
    } catch (const TrainingBroke& broke) {
      rows.push_back({{"system", each.name}, {"broke_down", broke.what()}});
      broke_down.emplace(each.name, broke);
    }
  }
  const std::vector<std::string> columns = {"system",         "convergence",     "straggler",
                                            "network",        "utilisation",     "reproducible",
                                            "learning rates", "a worker killed", "a server killed"};
  Table table(columns);
  Broken broken(columns.size());
  for (json& row : rows) {
    if (const auto broke = broke_down.find(row["system"]); broke != broke_down.end()) {
      table.add(broken.row(broke->first, broke->second));
      continue;
    }
    row["network"] = yardstick ? json(row["bytes_a_sample"].get<double>() / *yardstick) : json();
    table.add(as_cells(row, subject, options.seeds > 1));
  }
  const Settings& any = all.front().settings;
  return {
      .table = table,
      .rows = rows,
      .conditions = {{"workers", workers},
                     {"model", any.train.model},
                     {"data", name_of(any.train.data)},
                     {"measure", subject.measure()},
                     {"one_process", one_process_quality},
                     {"seeds", options.seeds}},
      .headline = subject.describe(any),
      .remarks =
          fmt::format(
              "Convergence is the model's {} relative to that of one process on the same samples "
              "({}); 1 is as good, less is worse.\nStraggler: the share of its pace that is kept "
              "with one worker {:g} times slower, simulated. Network: bytes sent in training\na "
              "sample, {}'s being 1. Utilisation: the share of its time that a worker does not "
              "wait. Reproducible: how far two runs of\none seed are apart. Learning rates: at how "
              "many of a quarter, half, once, twice and four times its own convergence\nis at "
              "least {:g}. Killed by SIGKILL in mid-run: a worker, and a server where it is a "
              "process of its own.",
              subject.measure(), subject.text(one_process_quality), kSlowness, kYardstick,
              kNearlyAsGood) +
          broken.remark()};
}

}  // namespace starling
