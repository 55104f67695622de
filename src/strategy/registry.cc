#include "strategy/registry.h"

#include <array>

#include "strategy/mix_plan.h"
#include "strategy/server_plan.h"

namespace starling {

namespace {

constexpr auto anything_goes = [](const Settings&) {};
constexpr auto always = [](const Settings&) { return true; };
constexpr auto never = [](const Settings&) { return false; };

constexpr StrategyRow mixing(StrategyKind kind, std::optional<GraphSettings::Kind> graph) {
  return {.kind = kind,
          .reads = Part::mixing,
          .codes = true,
          .graph = graph,
          .one_bucket = false,
          .make = make_mix,
          .check = check_mix,
          .survives_losses = [](const Settings& settings) { return !mixes_in_step(settings); },
          .averages_gradients = never,
          .out_of_data =
              [](const Settings& settings) {
                return mixes_in_step(settings) ? OutOfData::keeps_mixing : OutOfData::leaves;
              }};
}

// In the order of the enum.
constexpr std::array kStrategies = {
    StrategyRow{.kind = StrategyKind::allreduce,
                .reads = Part::exchange,
                .codes = true,
                .graph = {},
                .one_bucket = false,
                .make = make_allreduce,
                .check = anything_goes,
                .survives_losses = never,
                .averages_gradients = always,
                .out_of_data = [](const Settings&) { return OutOfData::sends_zeros; }},
    StrategyRow{.kind = StrategyKind::server,
                .reads = Part::servers,
                .codes = true,
                .graph = {},
                .one_bucket = false,
                .make = make_server_strategy,
                .check = check_servers,
                .survives_losses = servers_survive_losses,
                .averages_gradients =
                    [](const Settings& settings) { return settings.server.gate.in_step(); },
                .out_of_data =
                    [](const Settings& settings) {
                      const bool waited_for =
                          settings.server.gate.in_step() || group_size(settings) > 1;
                      return waited_for ? OutOfData::is_missed : OutOfData::leaves;
                    }},
    StrategyRow{.kind = StrategyKind::ring_leader,
                .reads = Part::none,
                .codes = false,
                .graph = {},
                .one_bucket = true,
                .make = make_ring_leader,
                .check = anything_goes,
                .survives_losses = always,
                .averages_gradients = always,
                .out_of_data = [](const Settings&) { return OutOfData::is_missed; }},
    mixing(StrategyKind::mix, {}),
    mixing(StrategyKind::pairwise, GraphSettings::Kind::window),
    mixing(StrategyKind::exponential, GraphSettings::Kind::exponential),
    mixing(StrategyKind::local, GraphSettings::Kind::mesh),
    StrategyRow{.kind = StrategyKind::single,
                .reads = Part::none,
                .codes = false,
                .graph = {},
                .one_bucket = false,
                .make = make_single,
                .check = anything_goes,
                .survives_losses = never,
                .averages_gradients = never,
                .out_of_data = [](const Settings&) { return OutOfData::leaves; }},
};
static_assert(is_a_registry(kStrategies, &StrategyRow::kind));

}  // namespace

const StrategyRow& strategy_row(StrategyKind kind) {
  return kStrategies[static_cast<std::size_t>(kind)];
}

bool cuts_together(const Settings& settings) {
  if (settings.strategy == StrategyKind::server) return settings.server.gate.in_step();
  return !is_mix(settings) || mixes_in_step(settings);
}

std::vector<std::string_view> readers_of(Part part, bool only_where_open) {
  std::vector<std::string_view> readers;
  for (const StrategyRow& row : kStrategies) {
    if (row.reads_part(part) && !(only_where_open && row.graph))
      readers.push_back(name_of(row.kind));
  }
  return readers;
}

}  // namespace starling
