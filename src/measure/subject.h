// What the grids train: a model on its data. Each has its own measure of how well that went, and
// what is sensible for it where no flag says otherwise.
//
//   model, data               measure               trained for          by                goal
//   resnet, fashion-mnist     accuracy              2 epochs             each system's own  0.85
//   char-gpt, kjv             bits per character    600 steps of 8       AdamW, cosine      2.2
//   all others                accuracy              5 epochs             each system's own  0.97
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "job/run_summary.h"
#include "measure/grids.h"
#include "measure/seeds.h"
#include "strategy/settings.h"
#include "strategy/systems.h"

namespace starling {

// One that a grid compares with others. `settings` are those of a settings file, with "; " in place
// of line ends: "strategy = 'pairwise'; period = 16".
struct Recipe {
  const char* name;  // of its folder, and for --only
  const char* settings;
  bool is_ddp = false;
};

// For recipes: what the system flock does, of any period and codec.
#define STARLING_MEAN_OF_CODED_CHANGES                                                     \
  "strategy = 'mix'; graph = 'mesh'; mixing = 'outer'; outer_lr = 1; outer_momentum = 0; " \
  "codec_entropy = true; "

class Subject {
 public:
  // The one that the flags ask for.
  explicit Subject(const MeasureOptions& options);

  // Under the flags stand a recipe's settings, and under those the subject's.
  Settings settings_of(const Recipe& recipe, int workers) const;
  // A system keeps its learning rate on images, for which it was tried; on text all have the same
  // optimizer and rate.
  Settings settings_of(const System& system, int workers) const;

  // Has it evaluate often and stop at the goal, unless a flag says otherwise.
  void race(Settings& settings) const;
  // The goal that the flags or the subject say.
  Target goal() const;
  // Whether an evaluation on the way found it, or the final model has it.
  bool reached_by(const RunSummary& summary) const;

  // Of a run's final model, and in an evaluation on the way.
  double quality(const RunSummary& summary) const;
  double quality_in(const nlohmann::json& evaluation) const;
  bool is_better(double one, double other) const { return is_text_ ? one < other : one > other; }

  bool is_text() const { return is_text_; }
  // Throws Error if it is not judged by its accuracy, as the paper judges.
  void check_has_accuracy(const char* grid) const;
  bool is_mnist() const { return !is_text_ && !is_resnet_; }
  const char* measure() const { return is_text_ ? "bits per character" : "accuracy"; }
  // "97.31 ± 0.12 %", or "1.942 ± 0.012" bits
  std::string text(const Sample& qualities) const;
  std::string text(double quality) const { return text(Sample{{quality}}); }
  // "4 workers train char-gpt on kjv for 600 steps"
  std::string describe(const Settings& settings) const;

 private:
  void set_work(Settings& settings) const;
  void set_optimizer(Settings& settings) const;
  // Flags over these, and what follows from both.
  Settings asked(Settings settings) const;
  double epochs_of_steps(double steps, const Settings& settings) const;

  const MeasureOptions& options_;
  bool is_text_, is_resnet_;
};

}  // namespace starling
