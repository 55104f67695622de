#include "strategy/systems.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/error.h"
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
