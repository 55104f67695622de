// starling-trainer: the program that `starling train` launches, one process a worker.
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "base/error.h"
#include "job/worker_events.h"
#include "parallel/grid_learner.h"
#include "train/trainer.h"

namespace starling {
namespace {

Settings settings_of(const Job& job) {
  Settings settings;
  read_settings(job.settings, "the launcher's settings", settings);
  check_settings(settings);
  return settings;
}

}  // namespace
}  // namespace starling

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("starling-trainer is started by `starling train`; see `starling train --help`\n",
               stderr);
    return 2;
  }
  starling::Job job;
  try {
    job = starling::job_from_environment();
    const starling::Settings settings = starling::settings_of(job);
    const auto workshop = settings.parallel.slices() > 1 ? starling::grid_workshop(settings)
                                                         : starling::whole_workshop(settings);
    starling::train(settings, job, argv[1], *workshop);
    std::fflush(nullptr);
    // Without libtorch's own farewell, which takes a tenth of what starting it took.
    ::_exit(0);
  } catch (const std::exception& error) {
    starling::report_error(job, error);
    return 1;
  }
}
