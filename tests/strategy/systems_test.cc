#include "strategy/systems.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "base/error.h"
#include "strategy/grid.h"
#include "strategy/mix_plan.h"
#include "tests/error_of.h"

namespace starling {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const System& system : named_systems()) result.push_back(system.name);
  return result;
}

TEST(Systems, AreTheFilesOfTheirFolderWordForWord) {
  const auto folder = std::filesystem::path(STARLING_SYSTEMS_FOLDER);
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    ASSERT_EQ(file.path().extension(), ".toml");
    files.push_back(file.path().stem());
    std::ifstream in(file.path());
    std::ostringstream text;
    text << in.rdbuf();
    EXPECT_EQ(find_system(files.back()).toml, text.str());
  }
  std::ranges::sort(files);
  EXPECT_EQ(names(), files) << "in the order of their names";
}

TEST(Systems, HaveThisProjectsAndItsYardstickAmongThem) {
  EXPECT_EQ(std::ranges::count(names(), "pairwise"), 1);
  EXPECT_EQ(std::ranges::count(names(), "horovod"), 1);
  const System system = find_system("pairwise");
  EXPECT_EQ(system.optimization, "decentral");
  EXPECT_EQ(system.topology, "ring");
}

TEST(Systems, DescribeThemselves) {
  for (const System& system : named_systems()) {
    for (const std::string& text :
         {system.title, system.summary, system.source, system.difference, system.parallelism,
          system.optimization, system.schedule, system.exchange, system.topology}) {
      EXPECT_FALSE(text.empty()) << system.name;
      EXPECT_EQ(text.find('\n'), std::string::npos) << system.name;
    }
    EXPECT_TRUE(system.optimization == "central" || system.optimization == "decentral")
        << system.name;
  }
}

TEST(Systems, HaveSettingsThatFourWorkersCanRun) {
  for (const System& system : named_systems()) {
    Settings settings;
    settings.workers = 4;
    EXPECT_NO_THROW(read_settings(system.toml, system.name, settings)) << system.name;
    EXPECT_NO_THROW(check_settings(settings)) << system.name;
    EXPECT_EQ(advice(settings), std::nullopt) << system.name;
  }
}

bool is_central(StrategyKind strategy) {
  using enum StrategyKind;
  return strategy == allreduce || strategy == server || strategy == ring_leader;
}

TEST(Systems, SetTheStrategyThatTheirChoicesName) {
  for (const System& system : named_systems()) {
    Settings settings, others;
    others.strategy = StrategyKind::single;
    read_settings(system.toml, system.name, settings);
    read_settings(system.toml, system.name, others);
    EXPECT_EQ(settings.strategy, others.strategy)
        << system.name << " leaves the strategy to chance";
    EXPECT_EQ(is_central(settings.strategy), system.optimization == "central") << system.name;
  }
}

// What settings amount to, in the words of the five choices.
std::string schedule_in_words(const Settings& s) {
  if (s.strategy == StrategyKind::server) {
    const std::map<GateSettings::Kind, std::string> words = {
        {GateSettings::Kind::bsp, "sync"},
        {GateSettings::Kind::ssp, "bounded async, delay"},
        {GateSettings::Kind::async, "async"},
        {GateSettings::Kind::value, "bounded async, value"},
        {GateSettings::Kind::quorum, "sync, backup workers"},
        {GateSettings::Kind::softsync, "soft-bounded async"}};
    return words.at(s.server.gate.kind) +
           (s.server.gate.epoch_share < 1 ? ", early epoch end" : "");
  }
  using enum MixingSettings::Rule;
  if (!is_mix(s) || mixes_in_step(s)) {
    return s.mix.rule == sampled && s.mix.client_share < 1 ? "sync, sampled clients" : "sync";
  }
  // The survey's word where weights or a penalty, not a wait, keep workers together.
  if (s.mix.rule == sum_weight || s.mix.rule == penalty) return "soft-bounded async";
  return s.schedule.kind == ScheduleSettings::Kind::bounded ? "bounded async" : "async";
}

std::string server_exchange_in_words(const ServerSettings& s) {
  if (s.group == 0) return "binomial tree";
  if (s.group > 1) return "to proxies, then ad hoc";
  if (s.eager) return "ad hoc, eager scatter";
  if (s.factors) return "ad hoc, factors of dense layers";
  if (s.push_every > 1 && s.fetch_every > 1) return "ad hoc, n_push and n_fetch";
  const bool all_at_once = s.servers == 0 && s.gate.kind == GateSettings::Kind::bsp;
  return all_at_once ? "scatter-reduce" : "ad hoc push and pull";
}

std::string mixing_exchange_in_words(const Settings& s) {
  using enum GraphSettings::Kind;
  const GraphSettings::Kind graph = graph_kind(s);
  switch (s.mix.rule) {
    using enum MixingSettings::Rule;
    case push_sum:
      return "push-sum";
    case sampled:
      return "weighted reduce";
    case sum_weight:
      return "gossip";
    case updates:
      return fmt::format("{}-coded updates to all", s.mix.codec.kind);
    case penalty:
      return "binomial tree";
    case elastic_push:
      return "ad hoc";
    case elastic:
      return graph == star ? "ad hoc" : "pairwise gossip";
    case mean:
      break;
    case outer:
      if (s.mix.codec.kind != CodecSettings::Kind::raw) return "coded scatter-reduce";
      break;
  }
  return graph == mesh          ? "ring all-reduce"
         : graph == star        ? "reduce"
         : graph == closed_ring ? "2:1 reduce"
                                : "pairwise";
}

// By its own settings, or by flags that its file names.
bool spreads_models(const std::string& name, const Settings& s) {
  const std::string difference = find_system(name).difference;
  return s.parallel.slices() > 1 || difference.starts_with("--pipeline and --tensor");
}

std::string exchange_in_words(const Settings& s) {
  if (s.parallel.pipeline > 1) return "micro-batch pipeline";
  if (s.parallel.tensor > 1) return "halo exchange";
  if (s.strategy == StrategyKind::allreduce) {
    return s.exchange == "ring" ? "ring all-reduce" : "all-reduce";
  }
  if (s.strategy == StrategyKind::ring_leader) return "ring to a leader and back";
  if (s.strategy == StrategyKind::server) return server_exchange_in_words(s.server);
  return mixing_exchange_in_words(s);
}

std::string topology_in_words(const Settings& s) {
  if (s.parallel.pipeline > 1) return "stages";
  if (s.parallel.tensor > 1) return "layers split along image axes";
  if (s.strategy == StrategyKind::allreduce) return "replicated";
  if (s.strategy == StrategyKind::ring_leader) return "ring, elected leader";
  if (s.strategy == StrategyKind::server) {
    const int servers = s.server.servers;
    return std::string(servers == 0   ? "k = n servers"
                       : servers == 1 ? "one server"
                                      : "k servers") +
           (s.server.group > 1 ? ", proxies" : "");
  }
  if (exchange_in_words(s) == "ring all-reduce") return "ring";
  const std::map<GraphSettings::Kind, std::string> words = {
      {GraphSettings::Kind::window, "ring"},
      {GraphSettings::Kind::closed_ring, "closed ring"},
      {GraphSettings::Kind::exponential, "one-peer exponential"},
      {GraphSettings::Kind::tree, "tree"},
      {GraphSettings::Kind::star, "star with a master"},
      {GraphSettings::Kind::mesh, "mesh"}};
  return words.at(graph_kind(s));
}

TEST(Systems, ChooseWhatTheirSettingsRun) {
  for (const System& system : named_systems()) {
    Settings settings;
    read_settings(system.toml, system.name, settings);
    EXPECT_EQ(system.parallelism.starts_with("model"), spreads_models(system.name, settings))
        << system.name;
    EXPECT_EQ(system.parallelism == "model", settings.copies() == 1) << system.name;
    EXPECT_EQ(system.schedule, schedule_in_words(settings)) << system.name;
    EXPECT_EQ(system.exchange, exchange_in_words(settings)) << system.name;
    EXPECT_EQ(system.topology, topology_in_words(settings)) << system.name;
  }
}

// The survey's, and those that are ours or younger.
TEST(Systems, HaveTheParallelismThatTheSurveyNames) {
  const std::map<std::string, std::string> survey = {{"pairwise", "data"},
                                                     {"horovod", "data"},
                                                     {"huawei-ring", "data"},
                                                     {"bigdl", "data"},
                                                     {"caffeonspark", "data"},
                                                     {"cots-hpc", "model"},
                                                     {"d-psgd", "data"},
                                                     {"distbelief", "model + data"},
                                                     {"easgd", "data"},
                                                     {"firecaffe", "data"},
                                                     {"gosgd", "data"},
                                                     {"mpca-sgd", "data"},
                                                     {"mxnet", "model + data"},
                                                     {"parameter-server", "model + data"},
                                                     {"petuum", "model + data"},
                                                     {"project-adam", "model + data"},
                                                     {"pytorch", "model + data"},
                                                     {"sparknet", "data"},
                                                     {"tensorflow", "model + data"},
                                                     {"tree-easgd", "data"},
                                                     {"deeplearning4j", "data"},
                                                     {"gpipe", "model"},
                                                     {"fedavg", "data"}};
  ASSERT_EQ(survey.size(), 23u);
  for (const auto& [name, parallelism] : survey) {
    EXPECT_EQ(find_system(name).parallelism, parallelism) << name;
  }
}

// A file says which flags spread a model, and they go with its settings.
TEST(Systems, ThatAreModelAndDataParallelSayHowAndCanBeBoth) {
  for (const System& system : named_systems()) {
    if (system.parallelism != "model + data") continue;
    for (int ParallelSettings::*axis : {&ParallelSettings::pipeline, &ParallelSettings::tensor}) {
      Settings settings;
      read_settings(system.toml, system.name, settings);
      settings.workers = 4;
      settings.parallel.*axis = 2;
      EXPECT_NO_THROW(check_settings(settings)) << system.name;
      EXPECT_NO_THROW(check_network(settings)) << system.name;
    }
  }
}

// "8" is in "every 8 steps", not in "0.8" or "18".
bool names_number(const std::string& text, const std::string& number) {
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  for (auto at = text.find(number); at != std::string::npos; at = text.find(number, at + 1)) {
    const auto end = at + number.size();
    const bool begins = at == 0 || !(is_digit(text[at - 1]) || text[at - 1] == '.');
    if (begins && (end == text.size() || !is_digit(text[end]))) return true;
  }
  return false;
}

// What a paper leaves open, or has otherwise, a file must say.
TEST(Systems, NameTheNumbersThatMakeThemWhatTheyAre) {
  for (const System& system : named_systems()) {
    Settings s;
    read_settings(system.toml, system.name, s);
    const std::string words = system.summary + " " + system.difference;
    const auto expect_named = [&](const char* what, double number) {
      EXPECT_NE(words.find(what), std::string::npos)
          << system.name << " does not name its " << what;
      EXPECT_TRUE(names_number(words, fmt::format("{:g}", number)))
          << system.name << " does not say that its " << what << " is " << number;
    };
    if (s.strategy == StrategyKind::server) {
      const GateSettings& gate = s.server.gate;
      if (gate.kind == GateSettings::Kind::ssp) expect_named("steps ahead", gate.delay_bound);
      if (gate.epoch_share < 1) expect_named("epoch ends", 100 * gate.epoch_share);
      if (s.server.push_every > 1) expect_named("n_push", s.server.push_every);
      if (s.server.fetch_every > 1) expect_named("n_fetch", s.server.fetch_every);
    }
    if (s.parallel.pipeline > 1) expect_named("micro-batches", s.parallel.micro_batches);
    if (!is_mix(s)) continue;
    if (s.optimizer.momentum != 0) expect_named("momentum", s.optimizer.momentum);
    if (s.mix.rule == MixingSettings::Rule::outer) {
      expect_named("outer momentum", s.mix.outer_momentum);
    }
    if (s.schedule.period > 1) expect_named("steps", s.schedule.period);
    if (s.schedule.kind == ScheduleSettings::Kind::bounded) {
      expect_named("steps ahead", s.schedule.ahead_bound);
    }
    if (s.schedule.probability < 1) expect_named("probability", s.schedule.probability);
  }
}

TEST(Systems, AreTheOnesOfTheirPageWordForWord) {
  std::ifstream in(STARLING_SYSTEMS_PAGE);
  std::ostringstream page;
  page << in.rdbuf();
  EXPECT_EQ(page.str(), systems_page())
      << "write it anew: starling systems --markdown > docs/systems.md";
  for (const System& system : named_systems()) {
    for (const std::string& text : {system.source, system.difference, system.topology}) {
      EXPECT_NE(page.str().find(text), std::string::npos) << system.name;
    }
  }
}

TEST(FindSystem, ListsThoseThereAreWhenThereIsNoneOfThatName) {
  std::string known;
  for (const std::string& name : names()) known += (known.empty() ? "" : ", ") + name;
  EXPECT_EQ(error_of([] { find_system("horrovod"); }),
            "there is no system 'horrovod'; there are " + known);
  EXPECT_EQ(error_of([] { find_system(""); }), "there is no system ''; there are " + known);
}

TEST(ParseSystem, SaysWhatIsMissing) {
  const std::string whole = find_system("pairwise").toml;
  for (const auto& [section, key] :
       std::vector<std::pair<std::string, std::string>>{{"system", "title"},
                                                        {"system", "summary"},
                                                        {"system", "source"},
                                                        {"system", "difference"},
                                                        {"choices", "parallelism"},
                                                        {"choices", "optimization"},
                                                        {"choices", "schedule"},
                                                        {"choices", "exchange"},
                                                        {"choices", "topology"}}) {
    std::string without = whole;
    const auto begin = without.find("\n" + key + " = ");
    ASSERT_NE(begin, std::string::npos) << key;
    without.erase(begin, without.find('\n', begin + 1) - begin);
    EXPECT_EQ(error_of([&] { parse_system(without, "my.toml"); }),
              "my.toml: [" + section + "] has no " + key);
  }
  EXPECT_EQ(error_of([] { parse_system("", "my.toml"); }), "my.toml: [system] has no title");
}

TEST(ParseSystem, NamesTheLineThatIsNoToml) {
  const std::string error = error_of([] { parse_system("[system]\ntitle = \n", "my.toml"); });
  EXPECT_EQ(error.find("my.toml:2: "), 0u) << error;
}

}  // namespace
}  // namespace starling
