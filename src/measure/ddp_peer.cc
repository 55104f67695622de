#include "measure/ddp_peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "launch/programs.h"
#include "measure/contestants.h"

namespace starling {

namespace {

using nlohmann::json;

constexpr int kSamples = 60'000;  // of MNIST

}  // namespace

RunSummary train_by_ddp(const Settings& settings, LaunchPlan plan,
                        const std::function<void(const json&)>& on_evaluation) {
  const TemporaryFolder folder;
  std::string script = fmt::format(
      "exec '{}' --rank $STARLING_RANK --store '{}/store' --data '{}' --workers {} --batch {} "
      "--epochs {} --lr {} --momentum {} --seed {}",
      sibling_program(kDdpProgram).string(), folder.path().string(), settings.train.data_folder,
      settings.workers, settings.train.batch, std::max(1, static_cast<int>(settings.train.epochs)),
      settings.optimizer.lr, settings.optimizer.momentum, settings.seed);
  if (settings.train.samples > 0) script += fmt::format(" --samples {}", settings.train.samples);
  if (const auto target = target_of(settings.train)) {
    const int samples =
        settings.train.samples > 0 ? std::min(settings.train.samples, kSamples) : kSamples;
    const int steps = samples / (settings.train.batch * settings.workers);
    script += fmt::format(" --until {} --evaluate-every {}", target->value,
                          std::max(1.0, std::ceil(settings.train.evaluate_every * steps)));
  }
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
