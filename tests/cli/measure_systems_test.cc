// `starling measure` on grids that train: all runs in one table and one report, and what has been
// measured is kept.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "tests/cli/starling_program.h"

namespace starling {
namespace {

using nlohmann::json;

TEST(MeasureSystems, PutsEverySystemInOneTableAndGoesOnWhereItWasInterrupted) {
  TemporaryFolder folder;
  const std::string path = (folder.path() / "grid").string();
  const auto measured = [&] {
    const Ran ran =
        starling_program({"measure", "--grid", "systems", "--workers", "2", "--data", "synthetic",
                          "--samples", "400", "--epochs", "1", "--folder", path, "--json"},
                         300s);
    EXPECT_EQ(ran.status, "exit 0") << ran.err;
    return json::parse(ran.out, nullptr, false);
  };
  const json first = measured();
  ASSERT_TRUE(first.is_object());
  const json systems = json::parse(starling_program({"systems", "--json"}).out);
  ASSERT_EQ(first["rows"].size(), systems.size());
  for (std::size_t i = 0; i < systems.size(); ++i) {
    const json& row = first["rows"][i];
    EXPECT_EQ(row["system"], systems[i]["name"]);
    for (const char* key : {"quality", "train_seconds", "samples_per_second",
                            "sent_bytes_per_worker", "received_bytes_per_worker"}) {
      EXPECT_GT(row[key].get<double>(), 0) << row;
    }
  }
  // A system's own settings hold, and flags are over them.
  const std::string settings = file_text(path + "/distbelief/seed-1/settings.toml");
  for (const char* line : {"optimizer = 'adagrad'", "lr = 0.02", "workers = 2", "epochs = 1.0"}) {
    EXPECT_NE(settings.find(line), std::string::npos) << line << " / " << settings;
  }

  // As if it had been interrupted in the third run.
  const std::string interrupted = path + "/" + systems[2]["name"].get<std::string>() + "/seed-1";
  std::filesystem::remove(interrupted + "/summary.json");
  const auto kept = std::filesystem::last_write_time(path + "/petuum/seed-1/summary.json");
  const json second = measured();
  EXPECT_TRUE(std::filesystem::exists(interrupted + "/summary.json"));
  EXPECT_EQ(std::filesystem::last_write_time(path + "/petuum/seed-1/summary.json"), kept);
  for (std::size_t i = 0; i < systems.size(); ++i) {
    if (i == 2) continue;
    EXPECT_EQ(second["rows"][i], first["rows"][i]);
  }
}

TEST(MeasureRace, TellsWhoWasFirstAndEndsWithAReport) {
  TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "race";
  const Ran ran =
      starling_program({"measure", "--grid", "race", "--workers", "2", "--data", "synthetic",
                        "--samples", "1200", "--epochs", "3", "--evaluate-every", "0.5", "--until",
                        "accuracy=0.3", "--folder", path.string(), "--json"},
                       120s);
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  const json race = json::parse(ran.out, nullptr, false);
  ASSERT_EQ(race["rows"].size(), 6u);  // without DDP, which knows MNIST only
  for (const json& row : race["rows"]) {
    EXPECT_GT(row["steps"].get<double>(), 0);
    EXPECT_TRUE(row["times_sooner_than_ddp"].is_null());
    if (row["quality"].get<double>() >= 0.3) {
      EXPECT_GT(row["seconds"].get<double>(), 0);
    }
  }
  EXPECT_LT(race["rows"][3]["bytes_sent"].get<double>(),  // every 16th step, as halves
            race["rows"][1]["bytes_sent"].get<double>());
  // What the race says of a run is what its summary and the report say.
  const std::vector<std::string> table = lines_of(file_text(path / "table.md"));
  const std::vector<std::string> report = lines_of(file_text(path / "report" / "comparison.md"));
  for (const json& row : race["rows"]) {
    const std::string who = row["who"];
    const json run = json::parse(file_text(path / who / "seed-1" / "summary.json"));
    if (run.contains("goal_step")) {
      EXPECT_EQ(row["seconds"], run["train_seconds"]);
    } else {
      EXPECT_TRUE(row["seconds"].is_null()) << row;
    }
    double sent = 0;
    for (const json& bytes : run["training_bytes_sent"]) sent += bytes.get<double>();
    EXPECT_EQ(row["bytes_sent"], sent);
    const auto line_of = [&](const std::vector<std::string>& lines) {
      const auto line = std::ranges::find_if(
          lines, [&](const std::string& each) { return each.starts_with("| " + who + " |"); });
      EXPECT_NE(line, lines.end()) << who;
      return line == lines.end() ? "" : *line;
    };
    const std::string seconds = fmt::format("| {:.1f} s |", run["train_seconds"].get<double>());
    EXPECT_NE(line_of(report).find(seconds), std::string::npos) << line_of(report);
    EXPECT_NE(line_of(report).find("| " + format_bytes(sent) + " |"), std::string::npos);
    EXPECT_NE(line_of(table).find("| " + format_bytes(sent) + " |"), std::string::npos);
    if (!row["seconds"].is_null()) {
      EXPECT_NE(line_of(table).find(seconds), std::string::npos) << line_of(table);
    }
  }
  EXPECT_TRUE(std::ranges::any_of(race["rows"], [](const json& row) {
    return !row["seconds"].is_null();
  })) << "nobody got there";
  const std::string page = file_text(path / "report" / "index.html");
  EXPECT_NE(page.find("pairwise-16-half"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path / "plot.svg"));
}

TEST(MeasureRace, SaysThatWhatIsDoneIsKeptWhenItIsInterrupted) {
  TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "race";
  Process process({STARLING_PROGRAM, "measure", "--grid", "race", "--workers", "2", "--data",
                   "synthetic", "--samples", "2400", "--epochs", "2", "--until", "accuracy=1",
                   "--folder", path.string()});
  ASSERT_TRUE(wait_until(60s, [&] {  // until the second run's workers report
    return !file_text(path / "pairwise" / "seed-1" / "network.jsonl").empty();
  }));
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(20s), "exit 130");
  EXPECT_NE(process.err().find("runs are kept in"), std::string::npos) << process.err();
  EXPECT_TRUE(std::filesystem::exists(path / "all-reduce" / "seed-1" / "summary.json"));
}

TEST(MeasureTradeoff, TellsWhichShareOfTheGapIsRecoveredForHowManyBytes) {
  TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "tradeoff";
  const Ran ran =
      starling_program({"measure", "--grid", "tradeoff", "--workers", "2", "--data", "synthetic",
                        "--samples", "1200", "--epochs", "2", "--seeds", "2", "--only",
                        "pairwise-8,mean-64", "--folder", path.string(), "--json"},
                       200s);
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  const json measured = json::parse(ran.out, nullptr, false);
  ASSERT_EQ(measured["rows"].size(), 5u);  // and all-reduce, never-talk, one-alone
  double most = 0;
  for (const json& row : measured["rows"]) {
    if (row["setting"] == "all-reduce") {
      EXPECT_NEAR(row["share_of_gap"].get<double>(), 1, 1e-9);
      most = row["bytes_in_all"];
    }
    if (row["setting"] == "never-talk") {
      EXPECT_NEAR(row["share_of_gap"].get<double>(), 0, 1e-9);
    }
    if (row["setting"] == "one-alone") {
      EXPECT_EQ(row["bytes_in_all"], 0);
    }
  }
  for (const json& row : measured["rows"]) {
    if (row["setting"] != "pairwise-8") continue;
    EXPECT_NEAR(row["times_fewer"].get<double>(), most / row["bytes_in_all"].get<double>(), 1e-9);
    EXPECT_GT(row["times_fewer"].get<double>(), 2);
    EXPECT_GT(row["bytes_in_all"].get<double>(), row["bytes_in_training"].get<double>());
  }
  EXPECT_TRUE(std::filesystem::exists(path / "mean-64" / "seed-2" / "summary.json"));
  EXPECT_NE(file_text(path / "plot.svg").find("share of the gap"), std::string::npos);
}

TEST(MeasureCriteria, SeesWhatASystemDoesWhenAWorkerIsKilled) {
  TemporaryFolder folder;
  const Ran ran =
      starling_program({"measure", "--grid", "criteria", "--workers", "3", "--data", "synthetic",
                        "--samples", "3000", "--epochs", "8", "--only", "horovod,easgd", "--folder",
                        (folder.path() / "criteria").string(), "--json"},
                       300s);
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  const json measured = json::parse(ran.out, nullptr, false);
  ASSERT_EQ(measured["rows"].size(), 2u);
  const json &easgd = measured["rows"][0], &horovod = measured["rows"][1];
  EXPECT_EQ(horovod["network"], 1);
  EXPECT_EQ(horovod["reproducible"], true);
  EXPECT_EQ(horovod["worker_killed"], "ends, model kept");
  EXPECT_EQ(easgd["worker_killed"], "goes on");
  EXPECT_GT(easgd["straggler_pace_kept"].get<double>(),
            horovod["straggler_pace_kept"].get<double>());
  for (const json& row : measured["rows"]) {
    EXPECT_GT(row["convergence"].get<double>(), 0);
    EXPECT_LE(row["good_rates"].get<int>(), 5);
  }
}

TEST(MeasureTimeToAccuracy, TunesEachOnOneSeedAndShowsIt) {
  TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "times";
  const Ran ran = starling_program({"measure",   "--grid",    "time-to-accuracy",
                                    "--workers", "2",         "--data",
                                    "synthetic", "--samples", "1200",
                                    "--epochs",  "2",         "--evaluate-every",
                                    "0.5",       "--until",   "accuracy=0.2",
                                    "--seeds",   "2",         "--only",
                                    "pairwise",  "--folder",  path.string(),
                                    "--json"},
                                   200s);
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  const json row = json::parse(ran.out, nullptr, false)["rows"][0];
  EXPECT_EQ(row["tuning"].size(), 4u);
  EXPECT_GT(row["steps"].get<double>(), 0);
  const std::string best = fmt::format("lr-{:g}", row["lr"].get<double>());
  int tried_twice = 0;
  for (const auto& rate : std::filesystem::directory_iterator(path / "pairwise")) {
    EXPECT_TRUE(std::filesystem::exists(rate.path() / "seed-1" / "summary.json")) << rate.path();
    if (!std::filesystem::exists(rate.path() / "seed-2")) continue;
    ++tried_twice;
    EXPECT_EQ(rate.path().filename(), best);
  }
  EXPECT_EQ(tried_twice, 1);
}

// Where nothing can begin, nothing is passed over: the first run says why, and is the last.
TEST(MeasureGrids, EndWithOneLineWhereTheDataIsMissing) {
  TemporaryFolder folder;
  for (const char* grid : {"time-to-accuracy", "rates", "systems", "tradeoff", "criteria"}) {
    const Ran ran = starling_program(
        {"measure", "--grid", grid, "--data-folder", (folder.path() / "nothing").string(),
         "--folder", (folder.path() / grid).string()},
        60s);
    EXPECT_EQ(ran.status, "exit 1") << grid;
    const std::vector<std::string> lines = lines_of(ran.err);
    ASSERT_FALSE(lines.empty());
    EXPECT_TRUE(lines.back().starts_with("error: ")) << ran.err;
    EXPECT_NE(lines.back().find("nothing"), std::string::npos) << ran.err;
    EXPECT_TRUE(!std::filesystem::exists(folder.path() / grid / "report")) << ran.err;
  }
}

// Random codes cannot carry the infinities of a training that diverges.
TEST(MeasureGrids, GoOnWhereATrainingBreaksDown) {
  TemporaryFolder folder;
  const Ran ran = starling_program(
      {"measure", "--grid", "codecs", "--workers", "2", "--data", "synthetic", "--samples", "600",
       "--epochs", "4", "--lr", "1000", "--only", "random-1-percent,quantized-1", "--folder",
       (folder.path() / "codecs").string(), "--json"},
      200s);
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  const json rows = json::parse(ran.out, nullptr, false)["rows"];
  ASSERT_EQ(rows.size(), 3u) << rows;
  EXPECT_EQ(rows[0]["codec"], "raw");
  EXPECT_TRUE(rows[1].contains("broke_down")) << rows[1];
  EXPECT_TRUE(rows[2].contains("quality")) << rows[2];
  const std::string table = file_text(folder.path() / "codecs" / "table.md");
  EXPECT_NE(table.find("| random-1-percent | broke down |"), std::string::npos) << table;
  EXPECT_NE(table.find("These broke down:\nrandom-1-percent/seed-1: "), std::string::npos) << table;
}

TEST(MeasureCodecs, HasAllCostsOfACodecInARow) {
  TemporaryFolder folder;
  const Ran ran = starling_program(
      {"measure", "--grid", "codecs", "--workers", "2", "--data", "synthetic", "--samples", "600",
       "--epochs", "1", "--seeds", "2", "--only", "quantized-7,sign-no-feedback", "--folder",
       (folder.path() / "codecs").string(), "--json"},
      200s);
  ASSERT_EQ(ran.status, "exit 0") << ran.err;
  const json rows = json::parse(ran.out, nullptr, false)["rows"];
  ASSERT_EQ(rows.size(), 3u) << rows;
  EXPECT_EQ(rows[0]["times_fewer"], 1);
  EXPECT_GT(rows[1]["times_fewer"].get<double>(), 5);
  EXPECT_GT(rows[2]["times_fewer"].get<double>(), rows[1]["times_fewer"].get<double>());
  for (const json& row : rows) {
    for (const char* key : {"quality", "encode_seconds", "decode_seconds"}) {
      EXPECT_GT(row[key].get<double>(), 0) << row;
    }
  }
  EXPECT_GE(rows[1]["memory_bytes_an_element"].get<double>(), 4) << "a residual";
  EXPECT_LT(rows[2]["memory_bytes_an_element"].get<double>(), 1) << "none";
  const std::string settings =
      file_text(folder.path() / "codecs" / "sign-no-feedback" / "seed-2" / "settings.toml");
  EXPECT_NE(settings.find("codec_feedback = false"), std::string::npos) << settings;
}

TEST(MeasureGrids, RefuseInOneLineWhatTheyCannotDo) {
  struct Wrong {
    std::vector<std::string> words;
    std::string said;
  };
  const std::vector<Wrong> all = {
      {{"--grid", "tradeoff", "--only", "gossip"}, "--only names 'gossip'"},
      {{"--grid", "tradeoff", "--workers", "1"}, "nobody to talk to"},
      {{"--grid", "rates", "--workers", "3"}, "--workers does not go with --grid rates"},
      {{"--grid", "slow", "--only", "pairwise"}, "--only does not go with --grid slow"},
      {{"--grid", "collapse", "--only", "pairwise"}, "it has 500, 1000, 2000, steps"},
      {{"--grid", "collapse", "--model", "char-gpt", "--data", "kjv"}, "is about accuracy"},
      {{"--grid", "paper", "--model", "char-gpt", "--data", "kjv"}, "is about accuracy"},
      {{"--grid", "codecs", "--only", "zip"}, "--only names 'zip'"},
      {{"--grid", "race", "--model", "char-gpt"}, "does not take data"},
      {{"--grid", "time-to-accuracy", "--until", "soon"}, "until = 'soon'"},
  };
  for (const Wrong& wrong : all) {
    std::vector<std::string> words = {"measure"};
    words.insert(words.end(), wrong.words.begin(), wrong.words.end());
    const Ran ran = starling_program(words);
    EXPECT_EQ(ran.status, "exit 1") << wrong.said;
    EXPECT_TRUE(ran.in_one_error_line()) << ran.out << ran.err;
    EXPECT_NE(ran.err.find(wrong.said), std::string::npos) << ran.err;
  }
}

}  // namespace
}  // namespace starling
