#include "strategy/settings.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "exchange/allreduce.h"
#include "exchange/pairwise.h"

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

struct Writer {
  toml::table& table;
  void operator()(const char* name, const std::string& field, const char*) const {
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

void check_settings(const Settings& settings) {
  const std::string& strategy = settings.strategy;
  const int workers = settings.workers;
  if (strategy.find(',') != std::string::npos ||
      fmt::format(" {},", kStrategyNames).find(fmt::format(" {},", strategy)) ==
          std::string::npos) {
    throw Error(fmt::format("there is no strategy '{}'", strategy),
                fmt::format("there are {}", kStrategyNames));
  }
  find_allreduce(settings.exchange);
  if (strategy != "pairwise" && settings.passes != 1) {
    throw Error(
        fmt::format("passes = {} goes with pairwise, not with {}", settings.passes, strategy),
        "leave it out, or use backward_passes to sum the gradients of several batches");
  }
  if (strategy == "pairwise" && settings.passes > std::max(1, workers - 1)) {
    throw Error(fmt::format("passes = {} needs more than {} workers", settings.passes, workers),
                workers < 3
                    ? "it can only be 1"
                    : fmt::format("it goes from 1 to {}, which averages over all", workers - 1));
  }
  if ((strategy == "allreduce" || strategy == "single") && settings.period != 1) {
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
  if (settings.optimizer != "sgd" && settings.optimizer != "adam") {
    throw Error(fmt::format("there is no optimizer '{}'", settings.optimizer),
                "there are sgd and adam");
  }
  if (settings.data != "mnist" && settings.data != "synthetic") {
    throw Error(fmt::format("there is no data set '{}'", settings.data),
                "there are mnist and synthetic");
  }
  target_accuracy(settings);
}

std::optional<std::string> advice(const Settings& settings) {
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
