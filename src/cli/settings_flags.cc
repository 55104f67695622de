#include "cli/settings_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"

namespace starling {

namespace {

std::string flag_of(std::string name) {
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

const std::set<std::string> kStrategySettings = {
    "workers", "strategy", "passes", "period", "backward_passes", "exchange", "bucket_kb", "slow"};
const std::set<std::string> kServerSettings = {
    "servers",     "placement",   "group",       "replicas",  "gate",         "delay_bound",
    "value_bound", "quorum",      "epoch_share", "staleness", "compensation", "lag",
    "push_every",  "fetch_every", "eager",       "factors"};
// What a server's optimizer needs, also where the workers' own is the user's affair.
const std::set<std::string> kOptimizerSettings = {"optimizer", "lr", "momentum", "weight_decay"};

// Adds an option for each setting it visits.
struct Adder {
  CLI::App& command;
  SettingsFlags::Which which;
  std::map<std::string, std::string>& given;

  void add(const char* name, const char* help, const std::string& fallback,
           const char* type) const {
    const bool of_server = kServerSettings.contains(name);
    const bool of_strategy = of_server || kStrategySettings.contains(name);
    if (which == SettingsFlags::Which::strategy_only &&
        ((!of_strategy && !kOptimizerSettings.contains(name)) || std::string(name) == "workers")) {
      return;  // launch has a --workers of its own
    }
    if (which == SettingsFlags::Which::training_only && of_strategy) return;
    CLI::Option* option = command.add_option_function<std::string>(
        flag_of(name), [&given = given, name](const std::string& text) { given[name] = text; },
        help);
    option->type_name(fallback.empty() ? type : fmt::format("{}={}", type, fallback));
    option->group(of_server     ? "Parameter servers"
                  : of_strategy ? "How workers work together"
                                : "What is trained");
    if (std::string(type) == "BOOL") option->expected(0, 1)->default_str("true");
  }
  void operator()(const char* name, const std::string& value, const char* help) const {
    add(name, help, value, "TEXT");
  }
  void operator()(const char* name, bool, const char* help) const { add(name, help, "", "BOOL"); }
  template <class Number>
  void operator()(const char* name, Number value, const char* help, Number, Number) const {
    add(name, help, fmt::format("{}", value), "N");
  }
};

// Takes the flags that were given into the settings.
struct Taker {
  const std::map<std::string, std::string>& given;

  void operator()(const char* name, std::string& field, const char*) const {
    if (const auto found = given.find(name); found != given.end()) field = found->second;
  }
  void operator()(const char* name, bool& field, const char*) const {
    const auto found = given.find(name);
    if (found == given.end()) return;
    const std::string& text = found->second;
    if (text != "true" && text != "false" && !text.empty()) {
      throw Error(fmt::format("{} {} cannot be", flag_of(name), text), "it is true or false");
    }
    field = text != "false";
  }
  template <class Number>
  void operator()(const char* name, Number& field, const char*, Number low, Number high) const {
    const auto found = given.find(name);
    if (found == given.end()) return;
    const std::string& text = found->second;
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() ||
        !(value >= low && value <= high)) {
      throw Error(fmt::format("{} {} cannot be", flag_of(name), text),
                  fmt::format("it takes a {} from {} to {}",
                              std::is_integral_v<Number> ? "whole number" : "number", low, high));
    }
    field = value;
  }
};

// Where `make mnist` puts the data.
std::string mnist_cache() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base =
      cache != nullptr && *cache != '\0'
          ? std::filesystem::path(cache)
          : std::filesystem::path(home == nullptr ? "." : home) / ".cache";
  return base / "starling" / "mnist";
}

std::string text_of(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw Error("cannot read the settings file " + file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

void SettingsFlags::add_to(CLI::App& command, Which which) {
  if (which != Which::training_only) {
    command.add_option("--system", system_, "a named system, see `starling systems`")
        ->group("How workers work together");
  }
  command.add_option("--settings", file_, "a TOML file with any of these settings")
      ->group("How workers work together");
  const Settings defaults;
  visit_settings(defaults, Adder{command, which, given_});
}

Settings SettingsFlags::over(Settings settings) const {
  if (!file_.empty()) read_settings(text_of(file_), file_, settings);
  visit_settings(settings, Taker{given_});
  if (settings.data_folder.empty()) settings.data_folder = mnist_cache();
  return settings;
}

Settings SettingsFlags::unchecked(Settings defaults) const {
  return system_.empty() ? over(std::move(defaults))
                         : settings_for(find_system(system_), std::move(defaults));
}

Settings SettingsFlags::settings_for(const System& system, Settings defaults) const {
  read_settings(system.toml, "system " + system.name, defaults);
  return over(std::move(defaults));
}

std::optional<std::string> SettingsFlags::any_flag() const {
  if (!given_.empty()) return flag_of(given_.begin()->first);
  if (!system_.empty()) return "--system";
  if (!file_.empty()) return "--settings";
  return std::nullopt;
}

Settings SettingsFlags::settings() const {
  Settings result = unchecked();
  check_settings(result);
  return result;
}

}  // namespace starling
