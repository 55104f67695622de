// starling-trainer: the program that `starling train` launches, one process a worker. With --layers it
// measures those of the network that is set, and tells the launcher.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "job/worker_events.h"
#include "parallel/grid_learner.h"
#include "parallel/layer_costs.h"
#include "train/trainer.h"

namespace starling {
namespace {

Settings settings_of(const Job& job) {
  Settings settings;
  read_settings(job.settings, "the launcher's settings", settings);
  check_settings(settings);
  return settings;
}

// On one thread, as a stage has it where there are as many as cores.
void report_layers(const TrainSettings& settings, const Job& job) {
  constexpr int kRepetitions = 11;
  at::set_num_threads(1);
  const auto blueprint = find_blueprint(settings, usual_classes(settings));
  if (!blueprint) {
    throw Error(fmt::format("the layers of '{}' are not known", settings.model),
                fmt::format("there are {}", listed(blueprint_names())));
  }
  const auto layers =
      measure_layers(*blueprint, random_batch(settings, settings.batch), mean_cross_entropy,
                     kRepetitions, [&](double share) {
                       report_event(job, {{"event", "measuring"}, {"share", share}});
                     });
  report_event(job, {{"event", "tied"}, {"bytes", tied_bytes(*blueprint)}});
  for (const LayerCost& layer : layers) {
    report_event(job, {{"event", "layer"},
                       {"name", layer.name},
                       {"forward_seconds", layer.forward_seconds},
                       {"backward_seconds", layer.backward_seconds},
                       {"parameter_bytes", layer.parameter_bytes},
                       {"output_bytes", layer.output_bytes},
                       {"kept_bytes", layer.kept_bytes}});
  }
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
    if (argv[1] == std::string_view("--layers")) {
      starling::report_layers(settings.train, job);
    } else {
      const auto workshop = settings.parallel.slices() > 1 ? starling::grid_workshop(settings)
                                                           : starling::whole_workshop(settings);
      starling::train(settings, job, argv[1], *workshop);
    }
    std::fflush(nullptr);
    // Without libtorch's own farewell, which takes a tenth of what starting it took.
    ::_exit(0);
  } catch (const std::exception& error) {
    starling::report_error(job, error);
    return 1;
  }
}
