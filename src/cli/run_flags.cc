#include "cli/run_flags.h"

#include <fmt/format.h>

#include "base/error.h"
#include "report/run_folder.h"

namespace starling {

void RunFlags::add_to(CLI::App& command, Folder folder) {
  folder_ = folder;
  const bool always = folder == Folder::always;
  CLI::Option* run = command.add_option(
      "--run", path_,
      always ? "the run folder; by default a new one under runs/"
             : "keep metrics, bytes and a summary in this folder, or in a new one under runs/");
  if (!always) run->expected(0, 1);
  command
      .add_option("--live", live_,
                  "show the run on a page as it goes, at 127.0.0.1:8070 or this ADDRESS:PORT; "
                  "its /metrics is for Prometheus")
      ->expected(0, 1);
  command.add_flag("--timeline", timeline_,
                   "write what each worker did when to timeline.json in the run folder, for "
                   "ui.perfetto.dev");
}

void RunFlags::complete(TrainingPlan& plan) const {
  plan.timeline = timeline_;
  const bool writes_together = timeline_ || !plan.settings.checkpoint.every.empty();
  if (plan.launch.mpi && plan.launch.mpi->size > 1 && writes_together &&
      (!path_ || path_->empty())) {
    throw Error("over MPI all ranks write timelines and checkpoints into one folder",
                "name it with --run");
  }
  if (live_ && plan.launch.speaks()) plan.live = parse_live_address(*live_);
  if (path_ && !path_->empty()) {
    plan.run_folder = *path_;
  } else if (path_ || timeline_ || folder_ == Folder::always) {
    // The launchers that an engine has started must come to the same one.
    plan.run_folder = plan.launch.place
                          ? std::filesystem::path("runs") / plan.launch.place->job
                          : fresh_run_path(fmt::format("{}-{}", plan.label, plan.settings.workers));
  }
}

}  // namespace starling
