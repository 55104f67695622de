#include "cli/ddp_peer.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "cli/contestants.h"
#include "cli/training_run.h"

namespace starling {

namespace {

using nlohmann::json;

constexpr int kSamples = 60'000;  // of MNIST

// A folder of its own, gone when this goes.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "starling-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw Error(fmt::format("cannot make a folder like {}", path_),
                  "see that TMPDIR names one that can be written to");
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

json train_by_ddp(const Settings& settings, LaunchPlan plan,
                  const std::function<void(const json&)>& on_evaluation) {
  const TemporaryFolder folder;
  std::string script = fmt::format(
      "exec '{}' --rank $STARLING_RANK --store '{}/store' --data '{}' --workers {} --batch {} "
      "--epochs {} --lr {} --momentum {} --seed {}",
      sibling_program(kDdpProgram).string(), folder.path(), settings.data_folder, settings.workers,
      settings.batch, std::max(1, static_cast<int>(settings.epochs)), settings.lr,
      settings.momentum, settings.seed);
  if (settings.samples > 0) script += fmt::format(" --samples {}", settings.samples);
  if (const auto target = target_accuracy(settings)) {
    const int samples = settings.samples > 0 ? std::min(settings.samples, kSamples) : kSamples;
    const int steps = samples / (settings.batch * settings.workers);
    script += fmt::format(" --until {} --evaluate-every {}", *target,
                          std::max(1.0, std::ceil(settings.evaluate_every * steps)));
  }
  plan.command = shell_reporting(script);
  plan.workers = settings.workers;
  json result;
  run_contestant(plan, "PyTorch DDP (`make bench` installs what it needs)", [&](const json& event) {
    const std::string kind = event.value("event", "");
    if (kind == "evaluation") on_evaluation(event);
    if (kind == "result") result = event;
  });
  if (result.is_null()) throw Error("PyTorch DDP ended without a result");
  result.erase("event");
  return result;
}

}  // namespace starling
