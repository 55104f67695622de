// starling measure --grid slow: how much of its pace each schedule keeps when one worker is slow.
// The strategies and servers are the real ones; time and network are the simulator's.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "measure/grids.h"
#include "measure/pace.h"
#include "report/progress_bar.h"
#include "strategy/systems.h"

namespace starling {

namespace {

using nlohmann::json;

struct Variant {
  std::string name;
  Settings settings;
  bool slow_at_master = false;  // the slow worker is the one that the master lives beside
};

struct Row {
  Variant schedule;
  Pace even;  // nobody slow
  Pace slow;

  double kept() const { return slow.batches_per_second / even.batches_per_second; }
};

std::vector<Variant> schedules(int workers) {
  Settings server;
  server.workers = workers;
  server.strategy = StrategyKind::server;
  server.optimizer.lr = kLearningRate;
  server.optimizer.momentum = 0;
  const auto gate = [&](GateSettings::Kind kind) {
    Settings settings = server;
    settings.server.gate.kind = kind;
    return settings;
  };

  std::vector<Variant> all = {{"bsp", gate(GateSettings::Kind::bsp)}};
  for (int bound : {2, 8, 32, 128}) {
    Settings ssp = gate(GateSettings::Kind::ssp);
    ssp.server.gate.delay_bound = bound;
    all.push_back({fmt::format("ssp, delay bound {}", bound), ssp});
  }
  all.push_back({"async", gate(GateSettings::Kind::async)});
  const Settings value = gate(GateSettings::Kind::value);
  all.push_back({fmt::format("value bound {}", value.server.gate.value_bound), value});
  Settings quorum = gate(GateSettings::Kind::quorum);
  quorum.workers = workers + 1;
  quorum.server.gate.quorum = workers;
  all.push_back(
      {fmt::format("quorum, {} of {}", quorum.server.gate.quorum, quorum.workers), quorum});
  Settings softsync = gate(GateSettings::Kind::softsync);
  softsync.server.gate.quorum = 2;
  all.push_back({fmt::format("softsync, {} gradients", softsync.server.gate.quorum), softsync});
  for (const GateSettings::Kind kind : {GateSettings::Kind::bsp, GateSettings::Kind::async}) {
    Settings epoch = gate(kind);
    epoch.server.gate.epoch_share = 0.75;
    all.push_back({fmt::format("{}, epoch share {}", kind, epoch.server.gate.epoch_share), epoch});
  }

  Settings alone;  // no servers
  alone.workers = workers;
  for (const StrategyKind strategy : {StrategyKind::ring_leader, StrategyKind::allreduce}) {
    alone.strategy = strategy;
    all.push_back({std::string(name_of(strategy)), alone});
  }
  // Decentral ones, as they are in systems/.
  for (const System& system : named_systems()) {
    if (system.optimization != "decentral") continue;
    Settings settings;
    read_settings(system.toml, system.name, settings);
    settings.workers = workers;
    settings.optimizer.lr = kLearningRate;
    all.push_back({system.name, settings});
    const bool has_master = settings.mix.graph.kind == GraphSettings::Kind::star &&
                            settings.schedule.kind != ScheduleSettings::Kind::sync;
    if (has_master) all.push_back({system.name + ", slow at its master", settings, true});
  }
  return all;
}

std::vector<Row> simulated_rows(const MeasureOptions& options) {
  const std::string slow_one = options.slow.value_or("3:5");
  if (slow_one.empty()) throw Error("--slow names no worker", "write it like 3:5");
  const std::vector<Variant> all = schedules(options.workers.value_or(4));
  Settings any = all.front().settings;
  any.slow = slow_one;
  check_settings(any);  // refuses a slow worker that is not there
  std::vector<Row> rows;
  ProgressBar bar("one slow worker");
  for (const Variant& schedule : all) {
    bar.show(static_cast<double>(rows.size()) / static_cast<double>(all.size()), schedule.name);
    Settings slowed = schedule.settings;
    slowed.slow = schedule.slow_at_master ? "0" + slow_one.substr(slow_one.find(':')) : slow_one;
    rows.push_back(
        {{schedule.name, slowed}, simulated_pace(schedule.settings), simulated_pace(slowed)});
  }
  return rows;
}

json as_json(const Row& row) {
  json result = {{"schedule", row.schedule.name},
                 {"workers", row.schedule.settings.workers},
                 {"batches_per_second", row.even.batches_per_second},
                 {"batches_per_second_slow", row.slow.batches_per_second},
                 {"kept", row.kept()},
                 {"steps_behind", row.slow.behind},
                 {"staleness_mean", nullptr},
                 {"staleness_max", nullptr},
                 {"dropped", nullptr},
                 {"skipped", row.slow.skipped}};
  if (row.slow.staleness_mean) {
    result["staleness_mean"] = *row.slow.staleness_mean;
    result["staleness_max"] = *row.slow.staleness_max;
  }
  if (row.slow.dropped) result["dropped"] = *row.slow.dropped;
  return result;
}

std::vector<std::string> as_text(const Row& row) {
  const Pace& slow = row.slow;
  return {row.schedule.name,
          fmt::format("{}", row.schedule.settings.workers),
          fmt::format("{:.0f}", row.even.batches_per_second),
          fmt::format("{:.0f}", row.slow.batches_per_second),
          fmt::format("{:.0f} %", row.kept() * 100),
          fmt::format("{}", row.slow.behind),
          slow.staleness_mean ? fmt::format("{:.2f}", *slow.staleness_mean) : "-",
          slow.staleness_max ? fmt::format("{}", *slow.staleness_max) : "-",
          slow.dropped ? fmt::format("{}", *slow.dropped) : "-",
          fmt::format("{}", row.slow.skipped)};
}

// "2, 8 and 32"
std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  }
  return text;
}

// What the rows say about delay bounds: how far behind the slow worker falls where nothing holds
// the others, which bounds that is too far for, and what those cost.
std::string about_delay_bounds(const std::vector<Row>& rows) {
  const auto of_gate = [](GateSettings::Kind gate) {
    return [gate](const Row& row) {
      const Settings& settings = row.schedule.settings;
      return settings.strategy == StrategyKind::server && settings.server.gate.kind == gate;
    };
  };
  struct Bounds {
    std::vector<std::string> names, shares;
    double least = 1e9, most = 0;
  };
  const Row& async = *std::ranges::find_if(rows, of_gate(GateSettings::Kind::async));
  Bounds reached, not_reached;
  for (const Row& row : rows) {
    if (!of_gate(GateSettings::Kind::ssp)(row)) continue;
    const int bound = row.schedule.settings.server.gate.delay_bound;
    Bounds& those = static_cast<std::uint64_t>(bound) < async.slow.behind ? reached : not_reached;
    those.names.push_back(std::to_string(bound));
    those.shares.push_back(fmt::format("{:.0f} %", row.kept() * 100));
    those.least = std::min(those.least, row.kept());
    those.most = std::max(those.most, row.kept());
  }
  std::string text = fmt::format(
      "Where nothing holds the others (async), the slow worker is {} steps behind at the end of "
      "these {} steps a worker.\n",
      async.slow.behind, kStepsPerWorker);
  if (!reached.names.empty()) {
    text += fmt::format(
        "Delay bounds that are reached on the way make the others wait from then on: {} keep{} {} "
        "of the pace.\n",
        listed(reached.names), reached.names.size() == 1 ? "s" : "", listed(reached.shares));
  }
  if (!not_reached.names.empty()) {
    text += fmt::format(
        "Delay bounds that are not reached hold nobody: {} keep{} {}, async {:.0f} %.\n",
        listed(not_reached.names), not_reached.names.size() == 1 ? "s" : "",
        listed(not_reached.shares), async.kept() * 100);
  }
  if (reached.most < not_reached.least && !reached.names.empty()) {
    text +=
        "So a delay bound keeps the pace only until the slow worker is that many steps behind; the "
        "longer the run,\nthe larger it would have to be.\n";
  }
  return text;
}

std::string how_to_read() {
  return fmt::format(
      "batches/s counts those that went into the model. Dropped are late gradients, skipped are "
      "batches nobody worked on;\n"
      "they, staleness and steps behind are of the run with the slow worker. What a value bound "
      "keeps depends on how fast\n"
      "the weights move: here with lr {} and noise of up to {} on gradients of at most 1.",
      kLearningRate, kNoise);
}

}  // namespace

MeasuredGrid measure_slow(const MeasureOptions& options) {
  const std::vector<Row> simulated = simulated_rows(options);
  Table table({"schedule", "workers", "batches/s", "with a slow one", "kept", "steps behind",
               "staleness mean", "staleness max", "dropped", "skipped"});
  json rows = json::array();
  for (const Row& row : simulated) {
    table.add(as_text(row));
    rows.push_back(as_json(row));
  }
  const Settings& first = simulated.front().schedule.settings;
  const auto slow = slow_worker(first);
  return {
      .table = table,
      .rows = rows,
      .conditions = {{"workers", first.workers},
                     {"slow", first.slow},
                     {"steps_per_worker", kStepsPerWorker},
                     {"elements", kElements},
                     {"lr", kLearningRate},
                     {"noise", kNoise},
                     {"bits_per_second", kBitsPerSecond},
                     {"latency_seconds", std::chrono::duration<double>(kLatency).count()},
                     {"compute_seconds", std::chrono::duration<double>(kCompute).count()}},
      .headline = fmt::format("simulated: {} workers of {} steps each, {} of computing a step; the "
                              "slow one, worker {}, takes {} times as long\n"
                              "a model of {} parameters ({}), links of {:g} Gbit/s and {} latency",
                              first.workers, kStepsPerWorker, format_duration(kCompute), slow->who,
                              slow->factor, format_count(static_cast<double>(kElements)),
                              format_bytes(static_cast<double>(kElements * sizeof(float))),
                              kBitsPerSecond / 1e9, format_duration(kLatency)),
      .remarks = about_delay_bounds(simulated) + how_to_read()};
}

}  // namespace starling
