// The command line itself: help, wrong words, and the commands that start no training.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "strategy/settings.h"
#include "tests/cli/starling_program.h"

namespace starling {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

std::string spoken(const Words& words) {
  std::string text = "starling";
  for (const std::string& word : words) text += " " + word;
  return text + "\n";
}

TEST(Commands, AllHaveHelpWithAnExample) {
  for (const char* command : {"train", "launch", "measure", "systems", "explain", "bench",
                              "bench exchange", "bench training", "bench codecs"}) {
    Words words = split(command, ' ');
    words.push_back("--help");
    const Ran ran = starling_program(words);
    EXPECT_EQ(ran.status, "exit 0") << command;
    EXPECT_NE(ran.out.find("Example"), std::string::npos) << command << "\n" << ran.out;
    EXPECT_NE(ran.out.find("starling " + std::string(command)), std::string::npos) << command;
    EXPECT_EQ(ran.err, "") << command;
  }
}

TEST(Commands, AreListedByHelp) {
  const Ran ran = starling_program({"--help"});
  EXPECT_EQ(ran.status, "exit 0");
  for (const char* command : {"train", "launch", "measure", "systems", "explain", "bench"}) {
    EXPECT_NE(ran.out.find(command), std::string::npos) << ran.out;
  }
}

TEST(Commands, SayWhatTheyWereBuiltOf) {
  const Ran text = starling_program({"--version"}),
            object = starling_program({"--version", "--json"});
  EXPECT_EQ(text.status, "exit 0");
  EXPECT_EQ(object.status, "exit 0");
  const auto facts = nlohmann::json::parse(object.out, nullptr, false);
  ASSERT_TRUE(facts.is_object()) << object.out;
  EXPECT_TRUE(text.out.starts_with("starling " + facts.value("version", "?") + "\n")) << text.out;
  for (const char* fact : {"compiler", "libtorch", "tls", "mpi"}) {
    ASSERT_TRUE(facts.contains(fact)) << object.out;
    EXPECT_NE(text.out.find(facts[fact]), std::string::npos) << fact << "\n" << text.out;
  }
  EXPECT_TRUE(facts["tls"].get<std::string>().starts_with("OpenSSL")) << facts;
  EXPECT_EQ(starling_program({"--json"}).status, "exit 2");
}

TEST(Commands, ThatDoNotExistEndWithStatusTwo) {
  const std::vector<Words> all = {{},
                                  {"nosuch"},
                                  {"--nosuch"},
                                  {"train", "--nosuch"},
                                  {"launch", "--nosuch", "--", "true"},
                                  {"launch"},
                                  {"launch", "--workers", "0", "--", "true"},
                                  {"measure", "--grid", "nosuch"},
                                  {"systems", "--nosuch"},
                                  {"explain"},
                                  {"explain", "ring", "--workers", "x"},
                                  {"bench"},
                                  {"bench", "nosuch"},
                                  {"bench", "exchange", "--workers", "0"},
                                  {"bench", "codecs", "--elements", "0"}};
  for (const Words& words : all) {
    const Ran ran = starling_program(words);
    EXPECT_EQ(ran.status, "exit 2") << spoken(words) << ran.out << ran.err;
    EXPECT_EQ(ran.out, "") << spoken(words);
    EXPECT_TRUE(ran.in_one_error_line()) << spoken(words);
  }
}

TEST(Commands, ThatAreMistypedAreAnsweredWithTheOneThatWasMeant) {
  for (const auto& [typed, meant] :
       std::map<std::string, std::string>{{"trian", "starling train"},
                                          {"lanch", "starling launch"},
                                          {"reports", "starling report"}}) {
    const Ran ran = starling_program({typed, "--workers", "4"});
    EXPECT_EQ(ran.status, "exit 2");
    EXPECT_TRUE(ran.in_one_error_line()) << ran.err;
    EXPECT_NE(ran.err.find("did you mean `" + meant + "`?"), std::string::npos) << ran.err;
  }
  const Ran ran = starling_program({"xyzzy"});
  EXPECT_EQ(ran.err.find("did you mean"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("there are train, launch"), std::string::npos) << ran.err;
}

TEST(Commands, ThatWereToPrintJsonSayInJsonWhatIsWrong) {
  for (const Words& words : std::vector<Words>{{"train", "--json", "--strategy", "nosuch"},
                                               {"train", "--json", "--nosuch"},
                                               {"report", "--json", "/nonexistent"}}) {
    const Ran ran = starling_program(words);
    EXPECT_TRUE(ran.in_one_error_line()) << ran.out << ran.err;
    EXPECT_NE(json::parse(ran.out, nullptr, false).value("error", ""), "") << ran.out;
  }
}

TEST(Commands, ShowNoFlagAsIfItWereOnWhenItIsNot) {
  const Ran ran = starling_program({"train", "--help"});
  EXPECT_NE(ran.out.find("--overlap [true|false]"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("=true"), std::string::npos) << ran.out;
}

TEST(Systems, AreListed) {
  const Ran text = starling_program({"systems"});
  EXPECT_EQ(text.status, "exit 0");
  const Ran ran = starling_program({"systems", "--json"});
  EXPECT_EQ(ran.status, "exit 0");
  Words names;
  for (const json& system : json::parse(ran.out)) {
    names.push_back(system["name"]);
    EXPECT_NE(text.out.find("\n" + names.back() + " "), std::string::npos) << text.out;
    for (const char* choice : {"parallelism", "optimization", "schedule", "exchange", "topology"}) {
      EXPECT_NE(system[choice], "") << choice;
    }
  }
  for (const char* name : {"horovod", "pairwise"}) {
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
  }
}

TEST(Systems, AreExplainedOneByOne) {
  const Ran ran = starling_program({"systems", "pairwise"});
  EXPECT_EQ(ran.status, "exit 0");
  EXPECT_NE(ran.out.find("Run it: starling train --system pairwise"), std::string::npos);
  const json system = json::parse(starling_program({"systems", "horovod", "--json"}).out);
  EXPECT_EQ(system["name"], "horovod");
}

TEST(Systems, ArePrintedAsOnePage) {
  const Ran page = starling_program({"systems", "--markdown"});
  EXPECT_EQ(page.status, "exit 0");
  for (const char* text :
       {"# The named systems\n", "| [horovod](#horovod) | data | central | sync |",
        "\n## pairwise\n", "`strategy = \"pairwise\"`"}) {
    EXPECT_NE(page.out.find(text), std::string::npos) << text;
  }
  const Ran one = starling_program({"systems", "pairwise", "--markdown"});
  EXPECT_EQ(one.status, "exit 1");
  EXPECT_TRUE(one.in_one_error_line()) << one.out << one.err;
}

TEST(Systems, ThatDoNotExistAreAnsweredWithThoseThatDo) {
  const Ran ran = starling_program({"systems", "nosuch"});
  EXPECT_EQ(ran.status, "exit 1");
  EXPECT_TRUE(ran.in_one_error_line()) << ran.out << ran.err;
  for (const char* word : {"nosuch", "horovod", "pairwise"}) {
    EXPECT_NE(ran.err.find(word), std::string::npos) << ran.err;
  }
}

TEST(Graph, SaysHowFastItBringsWorkersTogether) {
  const Ran ran = starling_program({"graph", "window", "--workers", "6", "--json"});
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  EXPECT_NEAR(json::parse(ran.out)["spectral_gap"].get<double>(), 0.13397, 1e-4) << ran.out;
  EXPECT_EQ(json::parse(ran.out)["rounds_to_shrink_tenfold"], 17) << ran.out;
  const Ran all = starling_program({"graph"});
  for (const char* name : {"window", "closed-ring", "exponential", "tree", "star", "mesh"}) {
    EXPECT_NE(all.out.find(name), std::string::npos) << all.out;
  }
  const Ran wrong = starling_program({"graph", "nosuch"});
  EXPECT_EQ(wrong.status, "exit 1");
  EXPECT_TRUE(wrong.in_one_error_line()) << wrong.err;
}

TEST(Graph, RefusesMorePassesThanThereAreOthersAsTrainDoes) {
  const std::string said = "passes = 3 needs more than 3 workers; it goes from 1 to 2";
  for (const Words& words :
       {Words{"graph", "window", "--workers", "3", "--passes", "3"},
        Words{"graph", "--workers", "3", "--passes", "3"},
        Words{"graph", "window", "--workers", "3", "--passes", "3", "--passes-mean", "group"}}) {
    const Ran ran = starling_program(words);
    EXPECT_EQ(ran.status, "exit 1") << ran.out;
    EXPECT_TRUE(ran.in_one_error_line()) << ran.err;
    EXPECT_NE(ran.err.find(said), std::string::npos) << ran.err;
  }
  EXPECT_EQ(starling_program({"graph", "window", "--workers", "3", "--passes", "2"}).status,
            "exit 0");
}

TEST(Report, RefusesWhatIsNoRun) {
  const Ran ran = starling_program({"report", "/nonexistent"});
  EXPECT_EQ(ran.status, "exit 1");
  EXPECT_TRUE(ran.in_one_error_line()) << ran.err;
}

TEST(Report, PassesOverAGridBesideRunsWithANote) {
  TemporaryFolder folder;
  const std::filesystem::path runs = folder.path();
  for (const char* run : {"one", "grid/first", "grid/second"}) {
    std::filesystem::create_directories(runs / run);
    std::ofstream(runs / run / "settings.toml") << "lr = 0.1\n";
  }
  std::filesystem::create_directories(runs / "slow");
  const auto path = [&](const char* name) { return (runs / name).string(); };
  const Ran ran = starling_program(
      {"report", path("grid"), path("one"), path("slow"), "--out", path("report"), "--json"});
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  EXPECT_EQ(json::parse(ran.out)["runs"], 1);
  EXPECT_NE(ran.err.find("grid holds 2 runs of its own"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("slow is no run folder"), std::string::npos) << ran.err;
  const Ran alone = starling_program({"report", path("grid"), "--out", path("report"), "--json"});
  EXPECT_EQ(json::parse(alone.out)["runs"], 2) << alone.err;
  EXPECT_EQ(alone.err, "");
}

TEST(MeasureSlow, PrintsTheSameInEveryCall) {
  const auto table = [] {
    TemporaryFolder folder;
    const std::string path = (folder.path() / "slow").string();
    const Ran ran = starling_program(
        {"measure", "--grid", "slow", "--workers", "2", "--slow", "0:3", "--folder", path}, 300s);
    EXPECT_EQ(ran.status, "exit 0") << ran.err;
    return file_text(path + "/table.md");
  };
  const std::string first = table();
  EXPECT_NE(first, "");
  EXPECT_EQ(first, table());
}

TEST(MeasureSlow, TellsWhatEachScheduleKeepsOfItsPace) {
  TemporaryFolder folder;
  const std::string path = (folder.path() / "slow").string();
  // Seconds, but minutes under a sanitizer.
  const Ran ran = starling_program({"measure", "--grid", "slow", "--folder", path, "--json"}, 300s);
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  const json result = json::parse(ran.out);
  EXPECT_EQ(result["grid"], "slow");
  EXPECT_EQ(result["workers"], 4);
  EXPECT_EQ(json::parse(file_text(path + "/table.json")), result["rows"]);
  std::map<std::string, json> rows;
  for (const json& row : result["rows"]) {
    const std::string schedule = row["schedule"];
    rows[schedule] = row;
    rows.try_emplace(split(schedule, ',')[0], row);
    EXPECT_NE(file_text(path + "/table.md").find("| " + schedule + " |"), std::string::npos);
    EXPECT_GT(row["batches_per_second"].get<double>(), 0) << row;
  }
  EXPECT_EQ(result["rows"].size(), 32u);
  for (const char* waits_for_nobody :
       {"easgd", "eamsgd", "gosgd", "mpca-sgd", "deeplearning4j", "ad-psgd"}) {
    EXPECT_GE(rows[waits_for_nobody]["kept"], 0.7) << waits_for_nobody;
  }
  EXPECT_GE(rows["async"]["kept"], 0.7);
  EXPECT_GE(rows["quorum"]["kept"], 0.7);
  EXPECT_EQ(rows["quorum"]["workers"], 5);
  EXPECT_GT(rows["quorum"]["dropped"], 0);
  EXPECT_GT(rows["async, epoch share 0.75"]["skipped"], 0);
  EXPECT_EQ(rows["softsync"]["dropped"], 0);
  // Its bound is further than the slow one falls behind.
  EXPECT_GE(rows["ssp, delay bound 128"]["kept"], 0.7);
  for (const char* synchronous : {"bsp", "ring-leader", "allreduce", "pairwise", "d-psgd"}) {
    EXPECT_LE(rows[synchronous]["kept"], 0.25) << synchronous;
  }
}

TEST(Measure, RefusesWhatDoesNotGoWithTheGrid) {
  const std::vector<std::pair<Words, const char*>> all = {
      {{"--grid", "paper", "--workers", "3"}, "--workers does not go with --grid paper"},
      {{"--grid", "paper", "--steps", "100"}, "--steps does not go with --grid paper"},
      {{"--grid", "collapse", "--lr", "0.3"}, "--lr does not go with --grid collapse"},
      {{"--grid", "slow", "--seeds", "3"}, "--seeds does not go with --grid slow"},
      {{"--grid", "systems", "--slow", "3:5"}, "--slow does not go with --grid systems"},
      {{"--grid", "systems", "--workers", "3"}, "3 workers do not make whole copies of a model"},
      {{"--grid", "slow", "--epochs", "3"}, "--epochs does not go with --grid slow"},
      {{"--grid", "slow", "--slow", "fast"}, "slow = 'fast' is not understood"},
      {{"--grid", "slow", "--workers", "2"}, "there is no worker 3"},
  };
  for (const auto& [flags, culprit] : all) {
    Words words = {"measure", "--folder", "/proc/no/such"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Ran ran = starling_program(words);
    EXPECT_EQ(ran.status, "exit 1") << culprit;
    EXPECT_TRUE(ran.in_one_error_line()) << ran.out << ran.err;
    EXPECT_NE(ran.err.find(culprit), std::string::npos) << ran.err;
  }
  const Ran ran = starling_program({"measure", "--grid", "nosuch"});
  EXPECT_EQ(ran.status, "exit 2");
  for (const char* name : {"nosuch", "paper", "systems", "slow"}) {
    EXPECT_NE(ran.err.find(name), std::string::npos) << ran.err;
  }
}

TEST(BenchCodecs, MeasuresAsJson) {
  const Ran ran =
      starling_program({"bench", "codecs", "--elements", "10000", "--rounds", "1", "--json"});
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  const json result = json::parse(ran.out);
  std::map<std::string, json> rows;
  for (const json& row : result["rows"]) rows[row["codec"]] = row;
  EXPECT_EQ(rows["raw"]["bytes"], 40'000);
  EXPECT_EQ(rows["half"]["bytes"], 20'000);
  EXPECT_LT(rows["threshold 2"]["bytes"], 400);
  EXPECT_EQ(rows["raw"]["left"], 0);
  EXPECT_GT(rows["sign"]["left"], 0.5);
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)                        // whose allocators count nothing
  EXPECT_GT(rows["top-k 1 %"]["memory_bytes"], 40'000);  // where a magnitude takes four bytes
#endif
  EXPECT_LT(rows["quantized 7"]["memory_bytes"], 10'000);
}

TEST(BenchCodecs, TakesAnUpdateFromAFileOfFloats) {
  const std::string path = testing::TempDir() + "/update.f32";
  const auto run = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return starling_program({"bench", "codecs", "--gradient", path, "--rounds", "1", "--json"});
  };
  const std::string one("\0\0\x80\x3f", 4), infinity("\0\0\x80\x7f", 4);
  EXPECT_EQ(json::parse(run(one + one + one).out)["elements"], 3);
  for (const std::string& bad : {std::string(), one + "x", one + infinity, std::string(8, '\0')}) {
    const Ran ran = run(bad);
    EXPECT_EQ(ran.status, "exit 1");
    EXPECT_TRUE(ran.in_one_error_line()) << ran.out << ran.err;
    EXPECT_NE(ran.err.find(path), std::string::npos) << ran.err;
  }
  std::filesystem::remove(path);
  EXPECT_TRUE(starling_program({"bench", "codecs", "--gradient", path}).in_one_error_line());
}

TEST(BenchExchange, MeasuresAsJson) {
  const Ran ran = starling_program({"bench", "exchange", "--workers", "2", "--sizes", "4KB",
                                    "--rounds", "1", "--seconds", "0.05", "--no-peers", "--json"});
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  const json result = json::parse(ran.out);
  ASSERT_FALSE(result["rows"].empty());
  for (const json& row : result["rows"]) {
    EXPECT_EQ(row["workers"], 2);
    EXPECT_EQ(row["bytes"], 4000);
    EXPECT_GT(row["median_seconds"].get<double>(), 0);
    EXPECT_GT(row["bytes_per_second"].get<double>(), 0);
  }
}

TEST(BenchExchange, MeasuresEveryAlgorithm) {
  const Ran ran =
      starling_program({"bench", "exchange", "--workers", "1,3", "--sizes", "4B,10KB", "--rounds",
                        "1", "--seconds", "0.01", "--no-peers", "--algorithms", "all", "--json"});
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  const json rows = json::parse(ran.out)["rows"];
  EXPECT_EQ(rows.size(), 2u * 2u * 9u);
  for (const json& row : rows) EXPECT_GT(row["median_seconds"].get<double>(), 0) << row;
}

TEST(BenchExchange, RefusesWhatCannotBeMeasured) {
  const std::vector<std::pair<Words, const char*>> all = {
      {{"--sizes", "0B"}, "--sizes 0B"},
      {{"--sizes", "3"}, "--sizes 3"},
      {{"--sizes", "-4KB"}, "-4KB"},
      {{"--sizes", "5XB"}, "'5XB' is not a size"},
      {{"--sizes", "big"}, "'big' is not a size"},
      {{"--sizes", "4KB,1000TB"}, "1000TB"},
      {{"--algorithms", "ring,nosuch"}, "'nosuch'; there are auto, naive"},
  };
  for (const auto& [flags, culprit] : all) {
    Words words = {"bench", "exchange", "--no-peers", "--rounds", "1", "--workers", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Ran ran = starling_program(words);
    EXPECT_EQ(ran.status, "exit 1") << culprit << ran.err;
    EXPECT_TRUE(ran.in_one_error_line()) << ran.out << ran.err;
    EXPECT_NE(ran.err.find(culprit), std::string::npos) << ran.err;
  }
}

// A setting that only the built-in trainer reads has no flag there; all others have.
struct Unlaunched {
  const std::string& help;
  template <class... Anything>
  void operator()(const Setting& setting, const Anything&...) const {
    std::string flag = std::string("  --") + setting.name + " ";
    std::ranges::replace(flag, '_', '-');
    const bool is_there =
        setting.name == std::string("workers") || help.find(flag) != std::string::npos;
    EXPECT_EQ(is_there, setting.section != Section::trained) << flag;
  }
};

TEST(Launch, HasAFlagForEverySettingThatAProgramOfOnesOwnCanUse) {
  const Ran ran = starling_program({"launch", "--help"});
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  const Settings defaults;
  visit_settings(defaults, Unlaunched{ran.out});
}

TEST(Launch, HandsDecentralSettingsOn) {
  Words words = {"launch",
                 "-n",
                 "2",
                 "--strategy",
                 "mix",
                 "--graph",
                 "mesh",
                 "--mixing",
                 "elastic",
                 "--schedule",
                 "async",
                 "--alpha",
                 "0.125",
                 "--",
                 "/bin/sh",
                 "-c",
                 "echo \"$STARLING_SETTINGS\""};
  const Ran ran = starling_program(words);
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  for (const char* line : {"graph = ", "mesh", "elastic", "async", "alpha = 0.125"}) {
    EXPECT_NE(ran.out.find(line), std::string::npos) << ran.out;
  }
}

TEST(Launch, NamesTheFlagThatDoesNotExist) {
  for (const Words& flags : {Words{"--grap", "mesh"}, {"--grap=mesh"}, {"--grap"}}) {
    Words words = {"launch", "-n", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "./prog", "--its", "argument"});
    const Ran ran = starling_program(words);
    EXPECT_EQ(ran.status, "exit 2") << spoken(words);
    EXPECT_NE(ran.err.find("--grap"), std::string::npos) << ran.err;
    EXPECT_EQ(ran.err.find("prog"), std::string::npos) << ran.err;
    EXPECT_EQ(ran.err.find("its"), std::string::npos) << ran.err;
  }
}

TEST(Launch, HandsTheArgumentsBehindTheDashesOn) {
  const Ran ran = starling_program({"launch", "-n", "1", "--", "echo", "-n", "--graph", "--", "x"});
  EXPECT_EQ(ran.status, "exit 0") << ran.err;
  EXPECT_EQ(ran.out, "[0] --graph -- x\n");
}

TEST(Launch, RefusesASecretThatEverybodyCanRead) {
  const TemporaryFolder folder;
  const std::filesystem::path secret = folder.path() / "secret";
  std::ofstream(secret) << "correct horse battery staple\n";
  using enum std::filesystem::perms;
  for (const auto open : {others_read, others_write, others_all}) {
    std::filesystem::permissions(secret, owner_read | owner_write | open);
    const Ran ran = starling_program({"launch", "--machines", "2", "--rendezvous", "127.0.0.1:1",
                                      "--secret-file", secret.string(), "--", "true"});
    EXPECT_EQ(ran.status, "exit 1") << ran.out;
    EXPECT_TRUE(ran.in_one_error_line()) << ran.err;
    EXPECT_NE(ran.err.find("run `chmod o= " + secret.string() + "`"), std::string::npos) << ran.err;
  }
}

TEST(Commands, SayThatTheirOutputDidNotFit) {
  Process process({"/bin/sh", "-c", "exec '" STARLING_PROGRAM "' systems > /dev/full"});
  EXPECT_EQ(process.wait(60s), "exit 1");
  EXPECT_EQ(process.err(), "error: cannot write the output: No space left on device\n");
}

TEST(Launch, RefusesWhatCannotBeLaunched) {
  const std::vector<std::pair<Words, const char*>> all = {
      {{"--strategy", "nosuch"}, "there is no strategy 'nosuch'; there are allreduce"},
      {{"--passes", "9"}, "passes = 9 needs more than 2 workers"},
      {{"--strategy", "allreduce", "--delay-bound", "9"},
       "delay_bound = 9 has no effect here: it goes with strategy server with gate ssp"},
      {{"--system", "nosuch"}, "there is no system 'nosuch'"},
      {{"--machines", "2"}, "--rendezvous and --secret-file"},
      {{"--machines", "2", "--machine", "2"}, "--machine 2 cannot be"},
      {{"--machines", "2", "--rendezvous", "127.0.0.1:1", "--secret-file", "/dev/null"},
       "/dev/null holds no secret"},
      {{"--settings", "/no/such/file.toml"}, "/no/such/file.toml"},
  };
  for (const auto& [flags, culprit] : all) {
    Words words = {"launch", "-n", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "true"});
    const Ran ran = starling_program(words);
    EXPECT_EQ(ran.status, "exit 1") << culprit;
    EXPECT_TRUE(ran.in_one_error_line()) << ran.out << ran.err;
    EXPECT_NE(ran.err.find(culprit), std::string::npos) << ran.err;
  }
}

}  // namespace
}  // namespace starling
