#include "strategy/settings.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>

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

  void operator()(const Setting& setting, std::string& field) const {
    if (const toml::node* node = table.get(setting.name)) {
      const auto value = node->value<std::string>();
      if (!value) fail(setting.name, "must be a text in quotes");
      field = *value;
      table.erase(setting.name);
    }
  }
  void operator()(const Setting& setting, bool& field) const {
    if (const toml::node* node = table.get(setting.name)) {
      const auto value = node->is_boolean() ? node->value<bool>() : std::nullopt;
      if (!value) fail(setting.name, "must be true or false");
      field = *value;
      table.erase(setting.name);
    }
  }
  void operator()(const Setting& setting, int& field, int low, int high) const {
    if (const toml::node* node = table.get(setting.name)) {
      const auto value = node->is_integer() ? node->value<std::int64_t>() : std::nullopt;
      if (!value || *value < low || *value > high) {
        fail(setting.name, fmt::format("must be a whole number from {} to {}", low, high));
      }
      field = static_cast<int>(*value);
      table.erase(setting.name);
    }
  }
  void operator()(const Setting& setting, double& field, double low, double high) const {
    if (const toml::node* node = table.get(setting.name)) {
      const auto value = node->is_number() ? node->value<double>() : std::nullopt;
      if (!value || !(*value >= low && *value <= high)) {
        fail(setting.name, fmt::format("must be a number from {} to {}", low, high));
      }
      field = *value;
      table.erase(setting.name);
    }
  }
  [[noreturn]] void fail(const char* name, const std::string& why) const {
    throw Error(fmt::format("{}: {} {}", source, name, why));
  }
};

// Whether a number is within its range, wherever it came from.
struct RangeChecker {
  template <class Value>
  void operator()(const Setting&, const Value&) const {}
  template <class Number>
  void operator()(const Setting& setting, Number field, Number low, Number high) const {
    if (field >= low && field <= high) return;
    throw Error(fmt::format("{} = {} cannot be", setting.name, field),
                fmt::format("it goes from {} to {}", low, high));
  }
};

struct Writer {
  toml::table& table;
  template <class Value>
  void operator()(const Setting& setting, const Value& field) const {
    table.insert_or_assign(setting.name, field);
  }
  template <class Number>
  void operator()(const Setting& setting, Number field, Number, Number) const {
    table.insert_or_assign(setting.name, field);
  }
};

// 0.03, where the library would write 0.029999999999999999; both are read back as the same.
std::string as_written(double number) {
  const std::string digits = fmt::format("{}", number);
  const bool reads_as_float = digits.find_first_of(".en") != std::string::npos;
  return reads_as_float ? digits : digits + ".0";
}

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
  for (const auto& [name, node] : table) {
    text << name.str() << " = ";
    if (const auto number = node.value_exact<double>()) {
      text << as_written(*number);
    } else {
      node.visit([&](const auto& value) { text << value; });
    }
    text << "\n";
  }
  return text.str();
}

namespace {

// A choice in words, whether it was made, and what else somebody may have meant.
struct Choice {
  const char* words;
  bool is_made;
  const char* otherwise = "";
};

Choice choice(ReadBy reader, const Settings& s) {
  const bool mixes = is_mix(s), serves = s.strategy == "server";
  const auto rule = [&](const char* name) { return mixes && s.mixing == name; };
  const auto graph = [&](const char* name) { return s.strategy == "mix" && s.graph == name; };
  const auto codec = [&](const char* name) { return mixes && s.codec == name; };
  const auto gate = [&](const char* name) { return serves && s.gate == name; };
  switch (reader) {
    using enum ReadBy;
    case everybody:
      return {"everything", true};
    case allreduce:
      return {"strategy allreduce", s.strategy == "allreduce"};
    case window:
      return {"strategy pairwise, and mix with graph window",
              s.strategy == "pairwise" || graph("window"),
              ", or use backward_passes to sum the gradients of several batches"};
    case mixing:
      return {"strategies mix, pairwise, exponential and local", mixes};
    case mix:
      return {"strategy mix", s.strategy == "mix"};
    case tree:
      return {"strategy mix with graph tree", graph("tree")};
    case graph_file:
      return {"strategy mix with graph file", graph("file")};
    case mean:
      return {"mixing mean", rule("mean")};
    case elastic_rules:
      return {"mixing elastic and elastic-push", rule("elastic") || rule("elastic-push")};
    case elastic:
      return {"mixing elastic", rule("elastic")};
    case push_in_tree:
      return {"mixing elastic-push with graph tree", rule("elastic-push") && graph("tree")};
    case outer:
      return {"mixing outer", rule("outer")};
    case sampled:
      return {"mixing sampled", rule("sampled")};
    case penalty:
      return {"mixing penalty", rule("penalty")};
    case bounded:
      return {"schedule bounded", mixes && s.schedule == "bounded"};
    case any_codec:
      return {"codecs other than raw", mixes && s.codec != "raw"};
    case top_k:
      return {"codec top-k", codec("top-k")};
    case threshold:
      return {"codec threshold", codec("threshold")};
    case server:
      return {"strategy server", serves};
    case ssp:
      return {"strategy server with gate ssp", gate("ssp")};
    case value:
      return {"strategy server with gate value", gate("value")};
    case quorum:
      return {"strategy server with gate quorum", gate("quorum")};
    case epoch:
      return {"strategy server with gate epoch", gate("epoch")};
    case compensate:
      return {"strategy server with staleness compensate", serves && s.staleness == "compensate"};
    case momentum:
      return {"optimizers sgd and nesterov",
              is_one_of(s.optimizer, "sgd, nesterov") || s.momentum == 0};  // none is none to all
    case dirichlet:
      return {"shards dirichlet", s.shards == "dirichlet"};
  }
  return {"nothing", false};
}

// What somebody has changed, somebody must read.
struct UseChecker {
  const Settings& settings;
  const std::map<std::string, std::string>& usual;

  template <class Value, class... Range>
  void operator()(const Setting& setting, const Value& field, Range...) const {
    const std::string value = fmt::format("{}", field);
    const std::string& fallback = usual.at(setting.name);
    const Choice needed = choice(setting.read_by, settings);
    if (needed.is_made || value == fallback) return;
    throw Error(fmt::format("{} = {} has no effect here: it goes with {}", setting.name, value,
                            needed.words),
                (fallback.empty() ? "leave it out" : fmt::format("leave it at {}", fallback)) +
                    needed.otherwise);
  }
};

struct Collector {
  std::map<std::string, std::string>& values;
  template <class Value, class... Range>
  void operator()(const Setting& setting, const Value& field, Range...) const {
    values[setting.name] = fmt::format("{}", field);
  }
};

void check_use(const Settings& settings) {
  const Settings defaults;
  std::map<std::string, std::string> usual;
  visit_settings(defaults, Collector{usual});
  visit_settings(settings, UseChecker{settings, usual});
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
  check_use(settings);
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
  if (const auto slow = slow_worker(settings); slow && slow->who >= workers) {
    throw Error(fmt::format("slow = '{}': there is no worker {}", settings.slow, slow->who),
                fmt::format("workers are counted from 0 to {}", workers - 1));
  }
  target_accuracy(settings);
}

std::optional<Slowness> slow_worker(const Settings& settings) {
  if (settings.slow.empty()) return std::nullopt;
  const std::optional<Slowness> slow = parse_slowness(settings.slow);
  if (!slow) {
    throw Error(fmt::format("slow = '{}' is not understood", settings.slow),
                "write it like 3:5, for worker 3 slowed five times (1 to 1000)");
  }
  return slow;
}

std::optional<std::string> advice(const Settings& settings) {
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
