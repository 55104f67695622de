#include "strategy/settings.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "exchange/allreduce.h"
#include "exchange/coded_allreduce.h"
#include "exchange/pairwise.h"
#include "strategy/grid.h"
#include "strategy/registry.h"
#include "topology/passes.h"

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
  template <NamedEnum Choice>
  void operator()(const Setting& setting, Choice& field) const {
    std::string name(name_of(field));
    (*this)(setting, name);
    field = named<Choice>(name);
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
  template <NamedEnum Choice>
  void operator()(const Setting& setting, const Choice& field) const {
    table.insert_or_assign(setting.name, name_of(field));
  }
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

namespace {

// What stands in a file, short enough for a line; a name of no file as it is.
std::string contents_of(const std::string& name) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(name, none)) return name;
  std::ifstream file(name, std::ios::binary);
  std::uint64_t bytes = 0,
                mixed = 0xcbf29ce484222325;  // FNV-1a: files differ by mishap, not by malice
  std::array<char, 1 << 16> part;
  while (file.read(part.data(), part.size()), file.gcount() > 0) {
    for (std::streamsize i = 0; i < file.gcount(); ++i) {
      mixed =
          (mixed ^ static_cast<unsigned char>(part[static_cast<std::size_t>(i)])) * 0x100000001b3;
    }
    bytes += static_cast<std::uint64_t>(file.gcount());
  }
  return fmt::format("a file of {} bytes, {:016x}", bytes, mixed);
}

struct AgreedWriter {
  toml::table& table;
  template <class Value, class... Range>
  void operator()(const Setting& setting, const Value& field, Range... range) const {
    if (setting.alike != Alike::nothing) Writer{table}(setting, field, range...);
  }
  void operator()(const Setting& setting, const std::string& field) const {
    if (setting.alike == Alike::nothing) return;
    Writer{table}(setting, setting.alike == Alike::contents ? contents_of(field) : field);
  }
};

std::string lines_of(const toml::table& table) {
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

}  // namespace

std::string write_settings(const Settings& settings) {
  toml::table table;
  visit_settings(settings, Writer{table});
  return lines_of(table);
}

std::string agreed_settings(const Settings& settings) {
  toml::table table;
  visit_settings(settings, AgreedWriter{table});
  return lines_of(table);
}

std::vector<std::string> different_settings(const Settings& one, const Settings& other) {
  toml::table first, second;
  visit_settings(one, Writer{first});
  visit_settings(other, Writer{second});
  std::vector<std::string> names;
  for (const auto& [name, node] : first) {
    if (!(toml::table{{"value", node}} == toml::table{{"value", *second.get(name.str())}})) {
      names.emplace_back(name.str());
    }
  }
  return names;
}

std::string exchange_help() {
  return "allreduce: auto (the fastest for each length), " + allreduces_listed(" or ");
}

Use use_in(Part part, StrategyKind strategy, const Use& use) {
  if (part == Part::none) return use;
  const StrategyRow& row = strategy_row(strategy);
  const std::vector<std::string_view> readers = readers_of(part, use.only_where_open);
  Use result = use;
  result.is_read = use.is_read && row.reads_part(part) && !(use.only_where_open && row.graph);
  if (readers.size() == 1) {
    result.with = fmt::format("strategy {}", readers[0]);
    if (!use.with.empty()) result.with += " with " + use.with;
  } else if (use.with.empty()) {
    result.with = "strategies " + listed(readers, " and ");
  }
  return result;
}

namespace {

// What somebody has changed, somebody must read.
struct UseChecker {
  const std::map<std::string, std::string>& usual;

  template <class Value, class... Range>
  void operator()(const Setting& setting, const Value& field, Range...) const {
    const std::string value = fmt::format("{}", field);
    const std::string& fallback = usual.at(setting.name);
    if (setting.use.is_read || value == fallback) return;
    throw Error(fmt::format("{} = {} has no effect here: it goes with {}", setting.name, value,
                            setting.use.with),
                (fallback.empty() ? "leave it out" : fmt::format("leave it at {}", fallback)) +
                    setting.use.otherwise);
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
  visit_settings(settings, UseChecker{usual});
}

}  // namespace

namespace {

void check_elastic(const Settings& settings) {
  const ElasticSettings& elastic = settings.elastic;
  if (!elastic.on) return;
  if (settings.parallel.slices() > 1) {
    throw Error("elastic and a model that is spread over several workers do not go together",
                "leave out --pipeline and --tensor, or --elastic");
  }
  if (settings.train.shards != TrainSettings::Shards::even) {
    throw Error("elastic deals a lost worker's samples out again, and shards bind them to one",
                "leave out --shards, or --elastic");
  }
  if (elastic.min_workers > settings.workers) {
    throw Error(fmt::format("min_workers = {} is more than there are workers", elastic.min_workers),
                fmt::format("it goes from 1 to {}", settings.workers));
  }
  if (elastic.max_workers != 0 && elastic.max_workers < settings.workers) {
    throw Error(fmt::format("max_workers = {} is fewer than the {} workers to begin with",
                            elastic.max_workers, settings.workers),
                "0 is as many as come");
  }
}

}  // namespace

Settings with_members(Settings settings, int workers, int servers) {
  settings.workers = workers;
  ServerSettings& server = settings.server;
  if (server.placement == ServerSettings::Placement::apart) {
    if (servers > 0) server.servers = servers;
  } else {
    server.servers = std::min(server.servers, workers);
  }
  server.replicas = std::min(server.replicas, server.server_count(workers));
  while (server.group > 0 && workers % server.group != 0) --server.group;
  server.gate.quorum = std::min(server.gate.quorum, workers / server.group_size(workers));
  int& passes = settings.mix.graph.passes;
  passes = std::min(passes, std::max(1, workers - 1));
  if (const auto slow = slow_worker(settings); slow && slow->who >= workers) settings.slow.clear();
  return settings;
}

void check_settings(const Settings& settings) {
  const int workers = settings.workers;
  visit_settings(settings, RangeChecker{});
  find_allreduce(settings.exchange);
  check_use(settings);
  check_grid(settings);
  check_elastic(settings);
  const int copies = settings.copies();
  check_passes(settings.mix.graph, copies, copies == workers ? "workers" : "copies of the model");
  strategy_row(settings.strategy).check(settings);
  check(settings.optimizer);
  if (const auto slow = slow_worker(settings); slow && slow->who >= workers) {
    throw Error(fmt::format("slow = '{}': there is no worker {}", settings.slow, slow->who),
                fmt::format("workers are counted from 0 to {}", workers - 1));
  }
  check(settings.train);
  target_of(settings.train);
  if (const auto interval = interval_of(settings.checkpoint);
      interval && interval->steps == 0 && settings.strategy == StrategyKind::ring_leader) {
    throw Error("with strategy ring-leader any worker may be lost, and nobody's clock is for all",
                "count checkpoint_every in steps, e.g. 200steps");
  }
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
  const MixingSettings& mix = settings.mix;
  const CodecSettings::Kind codec = mix.codec.kind;
  const int copies = settings.copies();
  if (settings.strategy == StrategyKind::allreduce && copies > 2 &&
      codec == CodecSettings::Kind::threshold) {
    return fmt::format(
        "codes by a threshold are gathered, {} a worker in every step; those of other codecs go "
        "through owners, {:.2f} a worker",
        copies - 1, codes_sent(CodecSettings::Kind::top_k, copies));
  }
  const bool coded_mixing =
      codec != CodecSettings::Kind::raw && strategy_row(settings.strategy).reads == Part::mixing;
  using enum CodecSettings::Kind;
  const bool sends_little = codec == top_k || codec == threshold || codec == random;
  // Unbiased, and so wrong by as much as is sent or more.
  const bool draws = !mix.codec.feedback && (codec == quantized || codec == hierarchical);
  if (coded_mixing && (sends_little || draws) && mix.rule == MixingSettings::Rule::mean &&
      mix.step > 0.2) {
    return fmt::format(
        "with codec {} a mixing_step of {:g} lets coding errors feed back, and training may break "
        "down; 0.05 is safe",
        codec, mix.step);
  }
  if (coded_mixing && mix.rule == MixingSettings::Rule::mean && copies > 2 &&
      graph_kind(settings) == GraphSettings::Kind::mesh) {
    return fmt::format(
        "a coded mean over a mesh sends {} codes a round; strategy mix with mixing outer, outer_lr "
        "1 and outer_momentum 0 sends {:.2f}",
        copies - 1, codes_sent(codec, copies));
  }
  if (settings.strategy != StrategyKind::pairwise) return std::nullopt;
  const int passes = mix.graph.passes, all_others = settings.copies() - 1;
  const double all = mean_vectors_sent(settings.copies());
  const double ours = mix.graph.in_groups() ? mean_vectors_sent(std::min(passes, all_others) + 1)
                      : mix.graph.repeats() ? std::min(passes, all_others)
                                            : pairwise_vectors_sent(settings.copies(), passes);
  if (ours <= all) return std::nullopt;
  return fmt::format(
      "passes = {} sends {:.2f} times the weights a round; averaging over all {} workers (passes = "
      "{}{}) sends only {:.2f} times",
      passes, ours, settings.copies(), all_others,
      mix.graph.repeats() ? ", passes_mean = window" : "", all);
}

}  // namespace starling
