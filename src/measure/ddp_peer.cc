#include "measure/ddp_peer.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "launch/programs.h"
#include "measure/contestants.h"

namespace starling {

namespace {

using nlohmann::json;

using Data = TrainSettings::Data;

// What the driver takes, in the words of its command line.
std::string arguments_for(const Settings& settings) {
  const TrainSettings& train = settings.train;
  const OptimizerSettings& optimizer = settings.optimizer;
  const LrSchedule& schedule = settings.lr_schedule;
  std::string words = fmt::format(
      "--data '{}' --workers {} --model {} --batch {} --epochs {} --optimizer {} --lr {} "
      "--momentum {} --adam-beta1 {} --adam-beta2 {} --weight-decay {} --clip {} --lr-schedule {} "
      "--lr-end {} --warmup {} --seed {}",
      train.data_folder, settings.workers, train.model, train.batch, train.epochs, optimizer.kind,
      optimizer.lr, optimizer.momentum, optimizer.beta1, optimizer.beta2, optimizer.weight_decay,
      optimizer.clip, schedule.kind, schedule.end, schedule.warmup_epochs, settings.seed);
  if (train.is_text()) {
    const NetworkSettings& network = train.network;
    words += fmt::format(" --layers {} --width {} --heads {} --context {}", network.layers,
                         network.width, network.heads, network.context);
  }
  if (train.samples > 0) words += fmt::format(" --samples {}", train.samples);
  if (train.steps > 0) words += fmt::format(" --steps {}", train.steps);
  if (!train.until.empty()) {
    words += fmt::format(" --until {} --evaluate-every {}", train.until, train.evaluate_every);
  }
  return words;
}

}  // namespace

std::string why_not_by_ddp(const Settings& settings) {
  const TrainSettings& train = settings.train;
  using Kind = OptimizerSettings::Kind;
  const bool is_known = (train.model == "mnist-cnn" && train.data == Data::mnist) ||
                        (train.model == "char-gpt" && train.data == Data::kjv);
  if (!is_known) return "its driver knows mnist-cnn on mnist and char-gpt on kjv only";
  const Kind kind = settings.optimizer.kind;
  if (kind != Kind::sgd && kind != Kind::adam && kind != Kind::adamw) {
    return fmt::format("its driver does not know optimizer {}", kind);
  }
  if (settings.lr_schedule.kind == LrSchedule::Kind::step)
    return "its driver lowers no rate in steps";
  if (train.shards != TrainSettings::Shards::even) return "its driver shares samples out evenly";
  return has_sibling_program(kDdpProgram) ? "" : "it is not here; `make bench` installs it";
}

RunSummary train_by_ddp(const Settings& settings, LaunchPlan plan,
                        const std::function<void(const json&)>& on_evaluation) {
  const TemporaryFolder folder;
  const std::string script = fmt::format("exec '{}' --rank $STARLING_RANK --store '{}/store' {}",
                                         sibling_program(kDdpProgram).string(),
                                         folder.path().string(), arguments_for(settings));
  plan.command = shell_reporting(script);
  plan.workers = settings.workers;
  std::optional<RunSummary> result;
  run_contestant(plan, "PyTorch DDP (`make bench` installs what it needs)", [&](const json& event) {
    const std::string kind = event.value("event", "");
    if (kind == "evaluation") on_evaluation(event);
    if (kind == "result") result = run_summary_in(event);
  });
  if (!result) throw Error("PyTorch DDP ended without a result");
  return *result;
}

}  // namespace starling
