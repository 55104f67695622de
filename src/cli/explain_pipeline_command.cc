// starling explain pipeline: where a network is cut into stages, what that takes, and who computes
// when.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/settings_flags.h"
#include "measure/layer_profile.h"
#include "plan/pipeline_plan.h"
#include "report/pipeline_drawing.h"
#include "report/plot.h"
#include "report/recorded_pipeline.h"
#include "report/table.h"
#include "strategy/grid.h"

namespace starling {

namespace {

using nlohmann::json;

struct ExplainPipeline {
  SettingsFlags flags;
  std::string bandwidth = "1gbit";
  std::string latency = "100us";
  std::filesystem::path run;
  std::filesystem::path drawing;
  bool print_json = false;
};

struct Explained {
  TrainSettings train;
  LayerProfile profile;
  PipelineChoice choice;
  PipelinePlan plan;
};

std::string seconds_text(double seconds) {
  return format_duration(
      std::chrono::nanoseconds(static_cast<std::int64_t>(std::llround(seconds * 1e9))));
}

std::string size_text(std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

// As `--stages` takes it.
std::string range_text(Range layers) {
  return layers.size() == 1 ? std::to_string(layers.begin)
                            : fmt::format("{}-{}", layers.begin, layers.end - 1);
}

std::vector<std::string> stage_names(const Explained& found) {
  std::vector<std::string> names;
  for (const StagePlan& stage : found.plan.stages) {
    const std::vector<LayerCost>& layers = found.profile.layers;
    const std::string& first = layers[stage.layers.begin].name;
    const std::string& last = layers[stage.layers.end - 1].name;
    names.push_back(fmt::format("stage {}: {}", names.size(),
                                first == last ? first : fmt::format("{} to {}", first, last)));
  }
  return names;
}

std::string title_of(const Explained& found) {
  return fmt::format("{}, {} stages, {} micro-batches of {} samples, {}{}", found.train.model,
                     found.plan.stages.size(), found.choice.micro_batches, found.train.batch,
                     name_of(found.choice.schedule), found.choice.recompute ? ", recompute" : "");
}

void print_tables(const ExplainPipeline& command, const Explained& found) {
  Table layers({"layer", "name", "forward", "backward", "parameters", "activations", "kept"});
  for (std::size_t i = 0; i < found.profile.layers.size(); ++i) {
    const LayerCost& layer = found.profile.layers[i];
    layers.add({std::to_string(i), layer.name, seconds_text(layer.forward_seconds),
                seconds_text(layer.backward_seconds), size_text(layer.parameter_bytes),
                size_text(layer.output_bytes), size_text(layer.kept_bytes)});
  }
  fmt::print("{}\nmeasured for one micro-batch on {}\n\n{}\n", title_of(found),
             found.profile.machine, layers.text());

  Table stages({"stage", "layers", "forward", "backward", "parameters", "sends a step",
                "micro-batches kept", "activations kept"});
  for (std::size_t i = 0; i < found.plan.stages.size(); ++i) {
    const StagePlan& stage = found.plan.stages[i];
    stages.add({std::to_string(i), range_text(stage.layers), seconds_text(stage.forward_seconds),
                seconds_text(stage.backward_seconds), size_text(stage.parameter_bytes),
                size_text(stage.sent_bytes), std::to_string(stage.kept_micro_batches),
                size_text(stage.kept_bytes)});
  }
  const PipelinePlan& plan = found.plan;
  fmt::print("{}\n{}\n", stages.text(),
             pipeline_text(plan.timetable, stage_names(found), ::isatty(STDOUT_FILENO) != 0));
  fmt::print(
      "a to z: micro-batches on their way forward, A to Z: on their way back, dots: waiting\n\n");
  fmt::print("step      {}, links of {} with {} latency\n", seconds_text(plan.step_seconds),
             command.bandwidth, command.latency);
  fmt::print("alone     {}: {:.2f} times as long\n", seconds_text(plan.alone_seconds),
             plan.alone_seconds / plan.step_seconds);
  fmt::print("bubble    {:.1f} % of the stages' time; {:.1f} % if all stages took equally long\n",
             100 * plan.bubble,
             100 * even_bubble(found.choice.schedule, static_cast<int>(plan.stages.size()),
                               found.choice.micro_batches));
}

json turns_of_stage(const std::vector<TimedTurn>& stage) {
  json turns = json::array();
  for (const TimedTurn& turn : stage) {
    turns.push_back({{"turn", turn.turn.kind == Turn::Kind::forward ? "forward" : "backward"},
                     {"micro_batch", turn.turn.micro_batch},
                     {"begin", turn.begin},
                     {"end", turn.end}});
  }
  return turns;
}

void print_json(const Explained& found) {
  json layers = json::array(), stages = json::array();
  for (const LayerCost& layer : found.profile.layers) {
    layers.push_back({{"name", layer.name},
                      {"forward_seconds", layer.forward_seconds},
                      {"backward_seconds", layer.backward_seconds},
                      {"parameter_bytes", layer.parameter_bytes},
                      {"activation_bytes", layer.output_bytes},
                      {"kept_bytes", layer.kept_bytes}});
  }
  for (std::size_t i = 0; i < found.plan.stages.size(); ++i) {
    const StagePlan& stage = found.plan.stages[i];
    stages.push_back({{"layers", {stage.layers.begin, stage.layers.end - 1}},
                      {"forward_seconds", stage.forward_seconds},
                      {"backward_seconds", stage.backward_seconds},
                      {"parameter_bytes", stage.parameter_bytes},
                      {"sent_bytes", stage.sent_bytes},
                      {"kept_micro_batches", stage.kept_micro_batches},
                      {"kept_bytes", stage.kept_bytes},
                      {"turns", turns_of_stage(found.plan.timetable[i])}});
  }
  fmt::print("{}\n", json{{"model", found.train.model},
                          {"machine", found.profile.machine},
                          {"micro_batches", found.choice.micro_batches},
                          {"micro_batch_samples", found.train.batch},
                          {"schedule", name_of(found.choice.schedule)},
                          {"recompute", found.choice.recompute},
                          {"layers", layers},
                          {"stages", stages},
                          {"step_seconds", found.plan.step_seconds},
                          {"alone_seconds", found.plan.alone_seconds},
                          {"bubble", found.plan.bubble}}
                         .dump());
}

void draw(const std::string& svg, const std::filesystem::path& file) {
  if (file.extension() == ".png") return write_png(svg, file);
  std::ofstream out(file);
  out << svg;
  if (!out.flush()) throw Error(fmt::format("cannot write {}", file.string()));
}

// A micro-batch is the largest part of a batch: it is what a stage must have room and time for.
TrainSettings micro_batch_of(const Settings& settings) {
  TrainSettings train = settings.train;
  const int parts = settings.parallel.micro_batches;
  train.data =
      train.model == "char-gpt" ? TrainSettings::Data::kjv : TrainSettings::Data::synthetic;
  if (parts > train.batch) {
    throw Error(fmt::format("a batch of {} has no {} micro-batches", train.batch, parts),
                "use fewer --micro-batches, or a larger --batch");
  }
  train.batch = (train.batch + parts - 1) / parts;
  return train;
}

std::vector<Range> cut_of(const Settings& settings, std::span<const LayerCost> layers,
                          const StageLink& link) {
  check_cut(settings, layers.size());
  return settings.parallel.stages.empty() ? cut_layers(layers, settings.parallel.pipeline, link)
                                          : cut_as_written(settings.parallel.stages, layers.size());
}

Settings two_stages() {
  Settings settings;
  settings.parallel.pipeline = 2;
  return settings;
}

// What a run did, in place of what one would do.
void show_recorded(const ExplainPipeline& command) {
  const RecordedPipeline recorded = read_pipeline(command.run);
  const ParallelSettings& parallel = recorded.settings.parallel;
  std::vector<std::string> stages;
  for (int stage = 0; stage < parallel.pipeline; ++stage) {
    stages.push_back(fmt::format("stage {}", stage));
  }
  const std::string title =
      fmt::format("{}, {} stages, {} micro-batches, {}: step {} as it was recorded",
                  recorded.settings.train.model, parallel.pipeline, parallel.micro_batches,
                  name_of(parallel.schedule), recorded.step);
  if (command.print_json) {
    json rows = json::array();
    for (const auto& stage : recorded.timetable) rows.push_back({{"turns", turns_of_stage(stage)}});
    fmt::print("{}\n", json{{"model", recorded.settings.train.model},
                            {"micro_batches", parallel.micro_batches},
                            {"schedule", name_of(parallel.schedule)},
                            {"step", recorded.step},
                            {"stages", rows},
                            {"bubble", bubble(recorded.timetable)}}
                           .dump());
  } else {
    fmt::print(
        "{}\n\n{}\nwaiting   {:.1f} % of the stages' time; {:.1f} % if all took equally long\n",
        title, pipeline_text(recorded.timetable, stages, ::isatty(STDOUT_FILENO) != 0),
        100 * bubble(recorded.timetable),
        100 * even_bubble(parallel.schedule, parallel.pipeline, parallel.micro_batches));
  }
  if (!command.drawing.empty()) {
    draw(pipeline_svg(title, recorded.timetable, stages), command.drawing);
  }
}

void explain_pipeline(const ExplainPipeline& command) {
  Explained found;
  const std::string extension = command.drawing.extension().string();
  if (!command.drawing.empty() && extension != ".svg" && extension != ".png") {
    throw Error(fmt::format("--draw {} is no picture that can be drawn", command.drawing.string()),
                "name it .svg or .png");
  }
  if (!command.run.empty()) return show_recorded(command);
  const Settings settings = command.flags.unchecked(two_stages());
  found.choice = {.schedule = settings.parallel.schedule,
                  .micro_batches = settings.parallel.micro_batches,
                  .recompute = settings.parallel.recompute};
  found.choice.link.bytes_per_second = parse_rate(command.bandwidth);
  found.choice.link.latency_seconds =
      std::chrono::duration<double>(parse_duration(command.latency)).count();
  found.train = micro_batch_of(settings);
  found.profile = profile_layers(found.train);
  const std::vector<LayerCost>& layers = found.profile.layers;
  const std::vector<Range> cut = cut_of(settings, layers, found.choice.link);
  found.plan = plan_pipeline(layers, cut, found.choice, found.profile.tied_bytes);
  if (command.print_json) {
    print_json(found);
  } else {
    print_tables(command, found);
  }
  if (!command.drawing.empty()) {
    draw(pipeline_svg(title_of(found), found.plan.timetable, stage_names(found)), command.drawing);
  }
}

}  // namespace

void add_explain_pipeline_command(CLI::App& explaining) {
  auto command = std::make_shared<ExplainPipeline>();
  CLI::App* pipeline = explaining.add_subcommand(
      "pipeline", "Where a network is cut into stages, what that takes, and who computes when");
  pipeline->footer(
      "The layers are measured on this machine, with random inputs; the rest follows by "
      "formula.\n\n"
      "Example:\n"
      "  starling explain pipeline --model char-gpt --pipeline 3\n"
      "  starling explain pipeline --model resnet --stages 0-1,2-4 --pipeline-schedule gpipe "
      "--draw resnet.svg\n"
      "  starling explain pipeline --run runs/mine --draw step.svg");
  command->flags.add_to(*pipeline, SettingsFlags::Which::pipeline, two_stages());
  pipeline->add_option("--bandwidth", command->bandwidth, "of the links between stages")
      ->capture_default_str();
  pipeline->add_option("--latency", command->latency, "of these links")->capture_default_str();
  pipeline->add_option("--run", command->run,
                       "show a step of this run, recorded by `starling train --timeline`, in place "
                       "of a computed one");
  pipeline->add_option("--draw", command->drawing, "a picture of the schedule, .svg or .png");
  pipeline->add_flag("--json", command->print_json, "print JSON");
  pipeline->callback([command] { explain_pipeline(*command); });
}

}  // namespace starling
