#include "measure/subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/run_data.h"

namespace starling {

namespace {

constexpr double kCharacters = 3'925'000;  // of the King James Bible that are trained on
constexpr double kWarmUpSteps = 30, kStepsToEvaluation = 25;  // of a language model

// The settings of a file, one behind the other.
std::string as_lines(std::string_view settings) {
  std::string lines;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const bool ends = settings.substr(i, 2) == "; ";
    lines += ends ? '\n' : settings[i];
    if (ends) ++i;
  }
  return lines;
}

}  // namespace

Subject::Subject(const MeasureOptions& options) : options_(options) {
  const TrainSettings train = options.settings_over({}).train;
  is_text_ = train.is_text();
  is_resnet_ = train.model == "resnet";
}

Settings Subject::settings_of(const Recipe& recipe, int workers) const {
  Settings settings;
  set_work(settings);
  set_optimizer(settings);
  read_settings(as_lines(recipe.settings), recipe.name, settings);
  settings.workers = workers;
  return asked(std::move(settings));
}

Settings Subject::settings_of(const System& system, int workers) const {
  Settings settings;
  read_settings(system.toml, "system " + system.name, settings);
  set_work(settings);
  set_optimizer(settings);
  settings.workers = workers;
  return asked(std::move(settings));
}

void Subject::set_work(Settings& settings) const {
  if (is_text_) {
    settings.train.batch = 8;
    settings.train.steps = 600;
    // Characters have no labels to go by.
    settings.train.shards = TrainSettings::Shards::even;
    settings.train.shard_alpha = TrainSettings().shard_alpha;
  } else {
    settings.train.epochs = is_resnet_ ? 2 : 5;
  }
}

void Subject::set_optimizer(Settings& settings) const {
  if (!is_text_) return;
  settings.optimizer = {.kind = OptimizerSettings::Kind::adamw,
                        .lr = 4e-3,
                        .weight_decay = 0.1,
                        .beta2 = 0.95,
                        .clip = 1};
  settings.lr_schedule.kind = LrSchedule::Kind::cosine;
  settings.lr_schedule.end = 0.1;
}

double Subject::epochs_of_steps(double steps, const Settings& settings) const {
  const TrainSettings& train = settings.train;
  const double windows = kCharacters / train.network.context;
  const double samples = train.samples > 0 ? std::min<double>(train.samples, windows) : windows;
  return steps * train.batch * settings.copies() / samples;
}

Settings Subject::asked(Settings settings) const {
  if (is_text_) {
    const Settings flagged = options_.settings_over(settings);
    settings.lr_schedule.warmup_epochs = epochs_of_steps(kWarmUpSteps, flagged);
  }
  const int workers = settings.workers;
  settings = options_.settings_over(std::move(settings));
  settings.workers = workers;
  return settings;
}

Target Subject::goal() const {
  TrainSettings train = options_.settings_over({}).train;
  if (train.until.empty()) {
    train.until = is_text_ ? "loss=2.2" : is_resnet_ ? "accuracy=0.85" : "accuracy=0.97";
  }
  return *target_of(train);
}

void Subject::race(Settings& settings) const {
  const Target target = goal();
  const bool by_loss = target.measure == Target::Measure::loss;
  settings.train.until = fmt::format("{}={}", by_loss ? "loss" : "accuracy", target.value);
  // What a flag says is to be told from what is there anyway.
  Settings defaults;
  defaults.train.evaluate_every =
      is_text_ ? epochs_of_steps(kStepsToEvaluation - 0.5, settings) : 0.05;
  settings.train.evaluate_every = options_.settings_over(defaults).train.evaluate_every;
}

bool Subject::reached_by(const RunSummary& summary) const {
  if (summary.goal_step) return true;
  return summary.accuracy && goal().reached(*summary.accuracy, summary.loss.value_or(INFINITY));
}

void Subject::check_has_accuracy(const char* grid) const {
  if (!is_text_) return;
  throw Error(
      fmt::format("--grid {} is about accuracy, and text is measured in bits per character", grid),
      "use a model of images, e.g. --model cnn3");
}

double Subject::quality(const RunSummary& summary) const {
  return is_text_ ? summary.loss.value_or(INFINITY) : summary.accuracy.value_or(0);
}

double Subject::quality_in(const nlohmann::json& evaluation) const {
  return is_text_ ? number_in(evaluation, "test_loss", NAN)
                  : number_in(evaluation, "accuracy", NAN);
}

std::string Subject::text(const Sample& qualities) const {
  if (!is_text_) return format_percent(qualities);
  if (qualities.values.size() < 2) return fmt::format("{:.3f}", qualities.mean());
  return fmt::format("{:.3f} ± {:.3f}", qualities.mean(), qualities.deviation());
}

std::string Subject::describe(const Settings& settings) const {
  const TrainSettings& train = settings.train;
  const std::string work =
      train.steps > 0 ? fmt::format("{} steps", train.steps)
                      : fmt::format("{:g} epoch{}", train.epochs, train.epochs == 1 ? "" : "s");
  return fmt::format("{} workers train {} on {} for {}", settings.workers, train.model, train.data,
                     work);
}

}  // namespace starling
