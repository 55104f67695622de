#include "strategy/settings.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "exchange/allreduce.h"
#include "exchange/pairwise.h"
#include "strategy/mix_plan.h"
#include "strategy/names.h"

namespace starling {

namespace {

// Takes one value out of a TOML table into a field, if it is there.
struct Reader {
  toml::table& table;
  const std::string& source;

  void operator()(const char* name, std::string& field, const char*) const {
    if (const toml::node* node = table.get(name)) {
      const auto value = node->value<std::string>();
      if (!value) fail(name, "must be a text in quotes");
      field = *value;
      table.erase(name);
    }
  }
  void operator()(const char* name, bool& field, const char*) const {
    if (const toml::node* node = table.get(name)) {
      const auto value = node->is_boolean() ? node->value<bool>() : std::nullopt;
      if (!value) fail(name, "must be true or false");
      field = *value;
      table.erase(name);
    }
  }
  void operator()(const char* name, int& field, const char*, int low, int high) const {
    if (const toml::node* node = table.get(name)) {
      const auto value = node->is_integer() ? node->value<std::int64_t>() : std::nullopt;
      if (!value || *value < low || *value > high) {
        fail(name, fmt::format("must be a whole number from {} to {}", low, high));
      }
      field = static_cast<int>(*value);
      table.erase(name);
    }
  }
  void operator()(const char* name, double& field, const char*, double low, double high) const {
    if (const toml::node* node = table.get(name)) {
      const auto value = node->is_number() ? node->value<double>() : std::nullopt;
      if (!value || !(*value >= low && *value <= high)) {
        fail(name, fmt::format("must be a number from {} to {}", low, high));
      }
      field = *value;
      table.erase(name);
    }
  }
  [[noreturn]] void fail(const char* name, const std::string& why) const {
    throw Error(fmt::format("{}: {} {}", source, name, why));
  }
};

// Whether a number is within its range, wherever it came from.
struct RangeChecker {
  template <class Value>
  void operator()(const char*, const Value&, const char*) const {}
  template <class Number>
  void operator()(const char* name, Number field, const char*, Number low, Number high) const {
    if (field >= low && field <= high) return;
    throw Error(fmt::format("{} = {} cannot be", name, field),
                fmt::format("it goes from {} to {}", low, high));
  }
};

struct Writer {
  toml::table& table;
  template <class Value>
  void operator()(const char* name, const Value& field, const char*) const {
    table.insert_or_assign(name, field);
  }
  template <class Number>
  void operator()(const char* name, Number field, const char*, Number, Number) const {
    table.insert_or_assign(name, field);
  }
};

}  // namespace

void read_settings(std::string_view toml, const std::string& source, Settings& settings) {
  toml::table table;
  try {
    table = toml::parse(toml, source);
  } catch (const toml::parse_error& error) {
    throw Error(fmt::format("{}:{}: {}", source, error.source().begin.line, error.description()));
  }
  // A named system is a settings file with a description; only the settings are ours here.
  if (toml::table* section = table["settings"].as_table()) {
    for (const auto& [key, node] : table) {
      if (!node.is_table()) {
        throw Error(fmt::format("{}: {} stands outside of [settings]", source,
                                std::string_view(key.str())));
      }
    }
    table = toml::table(*section);
  }
  visit_settings(settings, Reader{table, source});
  if (!table.empty()) {
    throw Error(fmt::format("{}: there is no setting '{}'", source,
                            std::string_view(table.begin()->first.str())),
                "see `starling train --help` for those there are");
  }
}

std::string write_settings(const Settings& settings) {
  toml::table table;
  visit_settings(settings, Writer{table});
  std::ostringstream text;
  text << table << "\n";
  return text.str();
}

namespace {

// Settings that only one strategy has must be left as they are for the others.
void check_belongs(const Settings& settings) {
  const Settings defaults;
  const std::string& strategy = settings.strategy;
  const bool window = strategy == "pairwise" || (strategy == "mix" && settings.graph == "window");
  if (!window && settings.passes != 1) {
    throw Error(fmt::format("passes = {} goes with pairwise and graph window, not with {}",
                            settings.passes, strategy == "mix" ? settings.graph : strategy),
                "leave it out, or use backward_passes to sum the gradients of several batches");
  }
  if (strategy != "mix" && (settings.graph != defaults.graph || settings.mixing != "mean" ||
                            settings.schedule != "sync")) {
    throw Error(fmt::format("graph, mixing and schedule go with mix, not with {}", strategy),
                "leave them out, or use strategy mix");
  }
  const bool of_mix = settings.codec != "raw" || settings.overlap ||
                      settings.probability != defaults.probability || settings.compute_ratio != 0 ||
                      settings.mixing_step != defaults.mixing_step;
  if (!is_mix(settings) && of_mix) {
    throw Error(fmt::format("codec, overlap, probability, compute_ratio and mixing_step go with "
                            "mix, pairwise, exponential and local, not with {}",
                            strategy),
                "leave them out, or use strategy mix");
  }
  if (is_one_of(strategy, "allreduce, server, ring-leader, single") && settings.period != 1) {
    throw Error(fmt::format("period = {} has no meaning for {}", settings.period, strategy),
                strategy == "single"
                    ? "leave it out"
                    : "gradients are exchanged at every step; use strategy local for an "
                      "average over all every period-th step");
  }
  if (strategy != "allreduce" && settings.exchange != "ring") {
    throw Error(
        fmt::format("exchange = {} goes with allreduce, not with {}", settings.exchange, strategy),
        "leave it out");
  }
  const bool of_server =
      settings.servers != defaults.servers || settings.placement != defaults.placement ||
      settings.group != defaults.group || settings.gate != defaults.gate || settings.eager ||
      settings.factors || settings.lag != defaults.lag ||
      settings.push_every != defaults.push_every || settings.fetch_every != defaults.fetch_every ||
      settings.staleness != defaults.staleness;
  if (strategy != "server" && of_server) {
    throw Error(fmt::format("servers, placement, group, gate, staleness, eager, factors, lag, "
                            "push_every and fetch_every go with server, not with {}",
                            strategy),
                "leave them out, or use strategy server");
  }
}

void check_servers(const Settings& settings) {
  const int workers = settings.workers;
  const int servers = settings.servers == 0 ? workers : settings.servers;
  check_name("placement", settings.placement, "apart, workers");
  check_name("gate", settings.gate, kGateNames);
  check_name("way to handle staleness", settings.staleness, "plain, scale, compensate");
  if (settings.placement == "workers" && servers > workers) {
    throw Error(fmt::format("{} servers do not fit on {} workers", servers, workers),
                fmt::format("with placement = workers there can be 1 to {}", workers));
  }
  if (settings.replicas > servers) {
    throw Error(fmt::format("replicas = {} needs more than {} server{}", settings.replicas, servers,
                            servers == 1 ? "" : "s"),
                "there can be as many as servers at the most");
  }
  if (settings.replicas > 1) {
    throw Error(
        fmt::format("replicas = {}: replicated shards are not built yet", settings.replicas),
        "it can only be 1");
  }
  const int group = settings.group == 0 ? workers : settings.group;
  if (workers % group != 0) {
    throw Error(
        fmt::format("{} workers cannot be shared out evenly in groups of {}", workers, group),
        "group must divide workers");
  }
  if (settings.gate == "quorum" && settings.quorum > workers / group) {
    throw Error(fmt::format("quorum = {} can never be reached by {} worker{}", settings.quorum,
                            workers / group, workers / group == 1 ? "" : "s"),
                fmt::format("it goes from 1 to {}", workers / group));
  }
  const bool every_step = settings.push_every == 1 && settings.fetch_every == 1;
  const bool plain_steps = every_step && settings.lag == 0 && !settings.eager;
  if (!plain_steps && (settings.gate == "value" || settings.staleness == "compensate")) {
    throw Error("a value bound and delay compensation need to know what each worker computes on",
                "leave out push_every, fetch_every, lag and eager");
  }
  if (!plain_steps && group > 1) {
    throw Error("workers of a group go step by step",
                "leave out push_every, fetch_every, lag and eager, or group");
  }
  if (settings.lag > 0 && (!every_step || settings.eager)) {
    throw Error(fmt::format("lag = {} needs a push and a fetch in every step", settings.lag),
                "leave out push_every, fetch_every and eager, or lag");
  }
  if (settings.eager && settings.fetch_every > 1) {
    throw Error("eager weights need no fetching", "leave out fetch_every, or eager");
  }
  if (settings.factors &&
      (settings.push_every > 1 || settings.lag > 0 || settings.backward_passes > 1 || group > 1)) {
    throw Error("factors are of one batch of one worker",
                "leave out push_every, lag, backward_passes and group, or factors");
  }
}

}  // namespace

void check_settings(const Settings& settings) {
  const int workers = settings.workers;
  visit_settings(settings, RangeChecker{});
  check_name("strategy", settings.strategy, kStrategyNames);
  find_allreduce(settings.exchange);
  check_belongs(settings);
  if (settings.passes > std::max(1, workers - 1)) {
    throw Error(fmt::format("passes = {} needs more than {} workers", settings.passes, workers),
                workers < 3
                    ? "it can only be 1"
                    : fmt::format("it goes from 1 to {}, which averages over all", workers - 1));
  }
  if (settings.strategy == "server") check_servers(settings);
  if (is_mix(settings)) check_mix(settings);
  check_name("way to share out samples", settings.shards, "even, dirichlet, label");
  check_name("optimizer", settings.optimizer, "sgd, nesterov, adagrad, adam");
  if (settings.optimizer == "nesterov" && settings.momentum == 0) {
    throw Error("nesterov needs a momentum", "use --momentum 0.9, or optimizer sgd");
  }
  check_name("data set", settings.data, "mnist, synthetic");
  if (const auto slow = slow_worker(settings); slow && slow->rank >= workers) {
    throw Error(fmt::format("slow = '{}': there is no worker {}", settings.slow, slow->rank),
                fmt::format("workers are counted from 0 to {}", workers - 1));
  }
  target_accuracy(settings);
}

std::optional<SlowWorker> slow_worker(const Settings& settings) {
  if (settings.slow.empty()) return std::nullopt;
  SlowWorker slow{-1, 0};
  const char* const end = settings.slow.data() + settings.slow.size();
  const auto [colon, error] = std::from_chars(settings.slow.data(), end, slow.rank);
  if (error == std::errc() && colon != end && *colon == ':') {
    const auto [last, wrong] = std::from_chars(colon + 1, end, slow.factor);
    if (wrong != std::errc() || last != end) slow.factor = 0;
  }
  if (slow.rank < 0 || !(slow.factor >= 1 && slow.factor <= 1000)) {
    throw Error(fmt::format("slow = '{}' is not understood", settings.slow),
                "write it like 3:5, for worker 3 slowed five times (1 to 1000)");
  }
  return slow;
}

namespace {

// A setting of one gate that was changed although another gate is in use.
std::optional<std::string> unused_gate_setting(const Settings& settings) {
  struct Belonging {
    const char* name;
    bool is_changed;
    const char* gate;
  };
  const Settings usual;
  for (const Belonging& setting : {
           Belonging{"delay_bound", settings.delay_bound != usual.delay_bound, "ssp"},
           Belonging{"value_bound", settings.value_bound != usual.value_bound, "value"},
           Belonging{"quorum", settings.quorum != usual.quorum, "quorum"},
           Belonging{"epoch_share", settings.epoch_share != usual.epoch_share, "epoch"},
       }) {
    if (!setting.is_changed || settings.gate == setting.gate) continue;
    return fmt::format("{} has no effect: it is for gate {}, and the gate is {}", setting.name,
                       setting.gate, settings.gate);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> advice(const Settings& settings) {
  if (settings.strategy == "server") return unused_gate_setting(settings);
  if (is_one_of(settings.codec, "top-k, threshold") && settings.mixing == "mean" &&
      settings.mixing_step > 0.2) {
    return fmt::format(
        "with codec {} a mixing_step of {:g} lets coding errors feed back, and training may break "
        "down; 0.05 is safe",
        settings.codec, settings.mixing_step);
  }
  if (settings.strategy != "pairwise") return std::nullopt;
  const double ours = pairwise_vectors_sent(settings.workers, settings.passes);
  const double all = pairwise_vectors_sent(settings.workers, settings.workers - 1);
  if (settings.passes >= settings.workers - 1 || ours <= all) return std::nullopt;
  return fmt::format(
      "passes = {} sends {:.2f} times the weights a round; averaging over all {} workers (passes = "
      "{}) "
      "sends only {:.2f} times",
      settings.passes, ours, settings.workers, settings.workers - 1, all);
}

std::optional<double> target_accuracy(const Settings& settings) {
  if (settings.until.empty()) return std::nullopt;
  constexpr std::string_view kPrefix = "accuracy=";
  double accuracy = -1;
  if (settings.until.starts_with(kPrefix)) {
    const char* first = settings.until.data() + kPrefix.size();
    const char* last = settings.until.data() + settings.until.size();
    const auto [end, error] = std::from_chars(first, last, accuracy);
    if (error != std::errc() || end != last) accuracy = -1;
  }
  if (!(accuracy > 0 && accuracy <= 1)) {
    throw Error(fmt::format("until = '{}' is not understood", settings.until),
                "write it like accuracy=0.97");
  }
  return accuracy;
}

}  // namespace starling
