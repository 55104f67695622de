#include "measure/layer_profile.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launch/programs.h"
#include "measure/contestants.h"
#include "measure/machine.h"
#include "report/progress_bar.h"
#include "strategy/settings.h"

namespace starling {

LayerProfile profile_layers(const TrainSettings& train) {
  Settings settings;
  settings.workers = 1;
  settings.strategy = StrategyKind::single;
  settings.train = train;
  check_settings(settings);
  LaunchPlan plan;
  plan.command = {sibling_program("starling-trainer"), "--layers"};
  plan.settings = write_settings(settings);
  LayerProfile profile;
  profile.machine = fmt::format("one thread, {}", machine_description());
  ProgressBar bar("measuring layers");
  bar.show(0, train.model);
  run_contestant(plan, "measuring layers", [&](const nlohmann::json& event) {
    const std::string kind = event.value("event", "");
    if (kind == "measuring") bar.show(event.at("share").get<double>(), train.model);
    if (kind == "tied") profile.tied_bytes = event.at("bytes").get<std::uint64_t>();
    if (kind != "layer") return;
    profile.layers.push_back({.name = event.at("name").get<std::string>(),
                              .forward_seconds = event.at("forward_seconds").get<double>(),
                              .backward_seconds = event.at("backward_seconds").get<double>(),
                              .parameter_bytes = event.at("parameter_bytes").get<std::uint64_t>(),
                              .output_bytes = event.at("output_bytes").get<std::uint64_t>(),
                              .kept_bytes = event.at("kept_bytes").get<std::uint64_t>()});
  });
  return profile;
}

}  // namespace starling
