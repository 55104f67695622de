// The settings of a training run: which strategy, and what is trained on what. They come from
// flags, from TOML files and from the named systems. Each component has a struct for its own, beside
// its code; here they come together. Files and flags name them without the struct: `alpha`, not
// `mix.alpha`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "base/setting.h"
#include "base/slowness.h"
#include "mixing/mixing_settings.h"
#include "server/optimizer.h"
#include "server/server_settings.h"
#include "strategy/checkpoint_settings.h"
#include "strategy/elastic_settings.h"
#include "strategy/lr_schedule.h"
#include "strategy/parallel_settings.h"
#include "strategy/schedule_settings.h"
#include "strategy/train_settings.h"

namespace starling {

enum class StrategyKind {
  allreduce,
  server,
  ring_leader,
  mix,
  pairwise,
  exponential,
  local,
  single
};
constexpr Names<8> names_of(StrategyKind) {
  return {
      "strategy",
      {"allreduce", "server", "ring-leader", "mix", "pairwise", "exponential", "local", "single"}};
}

struct Settings {
  int workers = 4;
  StrategyKind strategy = StrategyKind::pairwise;
  int backward_passes = 1;
  int bucket_kb = 1024;
  std::string slow;
  int seed = 1;

  ElasticSettings elastic;
  ParallelSettings parallel;
  std::string exchange = "auto";  // allreduce: see exchange/allreduce.h
  MixingSettings mix;
  ScheduleSettings schedule;
  ServerSettings server;
  OptimizerSettings optimizer{.momentum = 0.5};
  LrSchedule lr_schedule;
  TrainSettings train;
  CheckpointSettings checkpoint;

  // Of the model: what the workers of each do together is one worker of a data-parallel system.
  int copies() const { return workers / parallel.slices(); }
};

// Which of them only some strategies read; strategy/registry.cc says who reads which.
enum class Part { none, exchange, mixing, servers, codec };

// The use of a setting of that part, if this is the strategy.
Use use_in(Part part, StrategyKind strategy, const Use& use);

std::string exchange_help();

// Who hears whom: the graph that is set, or the one that the strategy is short for.
GraphSettings::Kind graph_kind(const Settings& settings);

// Calls visit(setting, value) for every setting; numbers get their smallest and largest value as
// well: visit(setting, value, low, high).
template <class SettingsType, class Visitor>
void visit_settings(SettingsType& s, Visitor&& visit) {
  const auto of_part = [&](Part part) {
    return [&, part](Setting setting, auto& field, auto... range) {
      setting.use = use_in(part, s.strategy, setting.use);
      visit(setting, field, range...);
    };
  };
  visit({"workers", Section::together, "how many worker processes"}, s.workers, 1, 4096);
  visit({"strategy", Section::together, names_listed<StrategyKind>(" or ")}, s.strategy);
  of_part(Part::mixing)({"passes",
                         Section::together,
                         "pairwise, graph window: how many others are averaged with, 1 to workers "
                         "- 1; passes_mean says "
                         "how",
                         {graph_kind(s) == GraphSettings::Kind::window,
                          "strategy pairwise, and mix with graph window",
                          ", or use backward_passes to sum the gradients of several batches"}},
                        s.mix.graph.passes, 1, 4095);
  of_part(Part::mixing)(
      {"passes_mean",
       Section::together,
       "what passes are: window (a mean over so many predecessors), repeat (the mean of two so "
       "many "
       "times in a row) or group (a mean within groups of one more, which change every round)",
       {graph_kind(s) == GraphSettings::Kind::window && s.mix.rule == MixingSettings::Rule::mean &&
            s.schedule.kind == ScheduleSettings::Kind::sync,
        "strategy pairwise, and mix with graph window, by mixing mean in schedule sync"}},
      s.mix.graph.passes_mean);
  visit({"backward_passes", Section::together,
         "sum the gradients of so many local batches before one update (Horovod's "
         "backward_passes_per_step)"},
        s.backward_passes, 1, 1'000'000);
  of_part(Part::exchange)({"exchange",
                           Section::together,
                           exchange_help(),
                           {s.mix.codec.kind == CodecSettings::Kind::raw, "codec raw"}},
                          s.exchange);
  ElasticSettings::visit(s.elastic, visit);
  ParallelSettings::visit(s.parallel, visit);
  GraphSettings::visit(s.mix.graph, of_part(Part::mixing));
  MixingSettings::visit(s.mix, of_part(Part::mixing));
  ScheduleSettings::visit(s.schedule, of_part(Part::mixing));
  CodecSettings::visit(s.mix.codec, of_part(Part::codec));
  ServerSettings::visit(s.server, of_part(Part::servers));
  visit({"slow",
         Section::together,
         "slow a worker down, e.g. 3:5 for worker 3 by five times",
         {},
         Alike::nothing},
        s.slow);
  TrainSettings::visit(s.train, visit);
  CheckpointSettings::visit(s.checkpoint, visit);
  OptimizerSettings::visit(s.optimizer, visit);
  LrSchedule::visit(s.lr_schedule, visit);
  visit({"seed", Section::learning, "makes first weights, shuffling and dropout repeatable"},
        s.seed, 0, 2'000'000'000);
  visit({"bucket_kb", Section::together,
         "gradients are exchanged in buckets of so many KB while the backward pass goes on"},
        s.bucket_kb, 1, 1'000'000);
}

// Reads the settings that a TOML text names into `settings`; throws Error, with `source` for its
// name, on anything that is not a setting or out of its range.
void read_settings(std::string_view toml, const std::string& source, Settings& settings);
std::string write_settings(const Settings& settings);
// Of these, what all machines of a job must have alike: "name = value", a line each. Files count by
// what is in them, wherever they are.
std::string agreed_settings(const Settings& settings);

// Throws Error, in one sentence, if the settings cannot be run, or if one that is not as it is by
// default is read by nobody in this configuration.
void check_settings(const Settings& settings);

// The same with another number of workers, and of processes that serve, where they come and go: what
// depends on it is made to fit.
Settings with_members(Settings settings, int workers, int servers);

// The names of those that are not the same in both.
std::vector<std::string> different_settings(const Settings& one, const Settings& other);

// A remark worth making before the run starts, e.g. that another setting sends less.
std::optional<std::string> advice(const Settings& settings);

// Which worker `slow` names, and by how much; nothing if none is.
std::optional<Slowness> slow_worker(const Settings& settings);

}  // namespace starling
