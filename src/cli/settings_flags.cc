#include "cli/settings_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/error.h"

namespace starling {

namespace {

std::string flag_of(std::string name) {
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

const char* title(Section section) {
  switch (section) {
    case Section::together:
      return "How workers work together";
    case Section::model:
      return "A model on several workers";
    case Section::decentral:
      return "Decentral systems";
    case Section::sent:
      return "What is sent";
    case Section::servers:
      return "Parameter servers";
    case Section::learning:
      return "How it learns";
    case Section::trained:
      return "What is trained";
  }
  return "";
}

bool is_of_pipeline(const Setting& setting) {
  const std::string_view name = setting.name;
  if (setting.section == Section::model) return name != "tensor";
  bool found = name == "model" || name == "batch";
  const NetworkSettings sizes;
  NetworkSettings::visit(
      sizes, "", [&](const Setting& size, const auto&...) { found = found || name == size.name; });
  return found;
}

// Adds an option for each setting it visits.
struct Adder {
  CLI::App& command;
  SettingsFlags::Which which;
  std::map<std::string, std::string>& given;

  bool is_asked_for(const Setting& setting) const {
    using enum SettingsFlags::Which;
    const bool trained = setting.section == Section::trained;
    const bool learning = setting.section == Section::learning;
    if (which == pipeline) return is_of_pipeline(setting);
    if (which == own_loop) return !trained && std::string_view(setting.name) != "workers";
    return which == all || trained || learning;
  }
  void add(const Setting& setting, const std::string& fallback, const char* type) const {
    if (!is_asked_for(setting)) return;
    CLI::Option* option = command.add_option_function<std::string>(
        flag_of(setting.name),
        [&given = given, name = setting.name](const std::string& text) { given[name] = text; },
        setting.help);
    option->type_name(fallback.empty() ? type : fmt::format("{}={}", type, fallback));
    option->group(title(setting.section));
    if (std::string_view(type) == "BOOL") {  // alone it means true, which is not what holds without
      option->expected(0, 1)->default_str("true")->option_text("[true|false]");
    }
  }
  void operator()(const Setting& setting, const std::string& value) const {
    add(setting, value, "TEXT");
  }
  template <NamedEnum Choice>
  void operator()(const Setting& setting, Choice value) const {
    add(setting, std::string(name_of(value)), "TEXT");
  }
  void operator()(const Setting& setting, bool) const { add(setting, "", "BOOL"); }
  template <class Number>
  void operator()(const Setting& setting, Number value, Number, Number) const {
    add(setting, fmt::format("{}", value), "N");
  }
};

// Takes the flags that were given into the settings.
struct Taker {
  const std::map<std::string, std::string>& given;

  void operator()(const Setting& setting, std::string& field) const {
    if (const auto found = given.find(setting.name); found != given.end()) field = found->second;
  }
  template <NamedEnum Choice>
  void operator()(const Setting& setting, Choice& field) const {
    if (const auto found = given.find(setting.name); found != given.end()) {
      field = named<Choice>(found->second);
    }
  }
  void operator()(const Setting& setting, bool& field) const {
    const auto found = given.find(setting.name);
    if (found == given.end()) return;
    const std::string& text = found->second;
    if (text != "true" && text != "false" && !text.empty()) {
      throw Error(fmt::format("{} {} cannot be", flag_of(setting.name), text),
                  "it is true or false");
    }
    field = text != "false";
  }
  template <class Number>
  void operator()(const Setting& setting, Number& field, Number low, Number high) const {
    const auto found = given.find(setting.name);
    if (found == given.end()) return;
    const std::string& text = found->second;
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() ||
        !(value >= low && value <= high)) {
      throw Error(fmt::format("{} {} cannot be", flag_of(setting.name), text),
                  fmt::format("it takes a {} from {} to {}",
                              std::is_integral_v<Number> ? "whole number" : "number", low, high));
    }
    field = value;
  }
};

// Where `make mnist` and its like put the data.
std::string cache_of(std::string_view data) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base =
      cache != nullptr && *cache != '\0'
          ? std::filesystem::path(cache)
          : std::filesystem::path(home == nullptr ? "." : home) / ".cache";
  return base / "starling" / data;
}

std::string text_of(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw Error("cannot read the settings file " + file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

void SettingsFlags::add_to(CLI::App& command, Which which, const Settings& defaults) {
  if (which == Which::all || which == Which::own_loop) {
    command.add_option("--system", system_, "a named system, see `starling systems`")
        ->group("How workers work together");
  }
  if (which != Which::pipeline) {
    command.add_option("--settings", file_, "a TOML file with any of these settings")
        ->group("How workers work together");
  }
  visit_settings(defaults, Adder{command, which, given_});
}

Settings SettingsFlags::unchecked(Settings settings) const {
  if (!system_.empty()) {
    const System system = find_system(system_);
    read_settings(system.toml, "system " + system.name, settings);
  }
  if (!file_.empty()) read_settings(text_of(file_), file_, settings);
  visit_settings(settings, Taker{given_});
  const TrainSettings::Data data = settings.train.data;
  if (settings.train.data_folder.empty() && data != TrainSettings::Data::text) {
    const bool downloaded = data != TrainSettings::Data::synthetic;
    settings.train.data_folder = cache_of(downloaded ? name_of(data) : "mnist");
  }
  return settings;
}

int SettingsFlags::workers_given() const {
  return given_.contains("workers") ? unchecked().workers : 0;
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
