// `starling train` as its users meet it: real workers, real files, real kills.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/units.h"
#include "tests/cli/starling_program.h"
#include "tests/cli/two_machines.h"

namespace starling {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// A small training, but for what `more` sets.
Words train_words(const Words& more) {
  Words words = {"train", "--json"};
  const std::vector<Words> small = {
      {"--data", "synthetic"}, {"--samples", "600"}, {"--epochs", "1"}, {"--batch", "32"}};
  for (const Words& flag : small) {
    if (std::ranges::find(more, flag[0]) == more.end()) {
      words.insert(words.end(), flag.begin(), flag.end());
    }
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class Train : public testing::Test {
 protected:
  std::string run(const char* name = "run") { return (folder_.path() / name).string(); }
  std::string file(const char* name, const std::string& text) {
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
    return (folder_.path() / name).string();
  }
  // The summary, which is the last line.
  json trained(const Words& more) {
    const Ran ran = starling_program(train_words(more), kTrainingPatience);
    EXPECT_EQ(ran.status, "exit 0") << ran.err;
    const Words lines = lines_of(ran.out);
    return lines.empty() ? json() : json::parse(lines.back(), nullptr, false);
  }

  TemporaryFolder folder_;
};

// 2 workers push and pull 21,840 float32 in each of 10 steps, and fetch them before and behind.
TEST_F(Train, CountsWhatServersSendToo) {
  const json result =
      trained({"--workers", "2", "--strategy", "server", "--servers", "2", "--run", run()});
  ASSERT_TRUE(result.is_object()) << result;
  for (const char* key : {"payload_bytes_sent", "wire_bytes_sent", "wire_bytes_received",
                          "payload_bytes_received", "training_bytes_sent"}) {
    ASSERT_EQ(result[key].size(), 4u) << key;
  }
  const auto sum = [&](const char* key, std::size_t first, std::size_t last) {
    double total = 0;
    for (std::size_t i = first; i < last; ++i) total += result[key][i].get<double>();
    return total;
  };
  const double model = 21840 * 4.0;
  EXPECT_NEAR(sum("training_bytes_sent", 0, 2), 2 * 10 * model, 0.02 * 20 * model);
  EXPECT_NEAR(sum("training_bytes_sent", 2, 4), 2 * 10 * model, 0.02 * 20 * model);
  EXPECT_NEAR(sum("payload_bytes_sent", 2, 4), 2 * 12 * model, 0.02 * 24 * model);
  EXPECT_NEAR(sum("wire_bytes_sent", 0, 4), sum("wire_bytes_received", 0, 4),
              0.01 * sum("wire_bytes_sent", 0, 4))
      << "what one sends another receives";
  EXPECT_NE(file_text(std::filesystem::path(run()) / "network.jsonl").find("\"rank\":3"),
            std::string::npos);
}

TEST_F(Train, TellsTheResultAndFillsTheRunFolder) {
  const json result = trained({"--workers", "2", "--run", run()});
  ASSERT_TRUE(result.is_object()) << result;
  EXPECT_EQ(result["strategy"], "pairwise");
  EXPECT_EQ(result["workers"], 2);
  EXPECT_EQ(result["parameters"], 21840);
  EXPECT_EQ(result["epochs"], 1.0);
  EXPECT_EQ(result["steps"], 10);  // 600 samples, 2 x 32 a step
  for (const char* key : {"accuracy", "samples_per_second", "seconds"}) {
    EXPECT_GT(result[key].get<double>(), 0) << key;
  }
  for (const char* key : {"worker_accuracy", "payload_bytes_sent", "wire_bytes_sent"}) {
    ASSERT_EQ(result[key].size(), 2u) << key;
    for (const json& each : result[key]) EXPECT_GT(each.get<double>(), 0) << key;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_GE(result["wire_bytes_sent"][i], result["payload_bytes_sent"][i]);
  }

  const std::filesystem::path folder = run();
  EXPECT_NE(file_text(folder / "settings.toml").find("workers = 2"), std::string::npos);
  EXPECT_EQ(json::parse(file_text(folder / "summary.json"), nullptr, false), result);
  const auto model_bytes = std::filesystem::file_size(folder / "model.safetensors");
  EXPECT_GT(model_bytes, 21840u * 4);
  EXPECT_LT(model_bytes, 21840u * 4 + 10'000);
  for (const char* name : {"metrics.jsonl", "network.jsonl"}) {
    const Words lines = lines_of(file_text(folder / name));
    EXPECT_FALSE(lines.empty()) << name;
    for (const std::string& line : lines) {
      EXPECT_TRUE(json::parse(line, nullptr, false).is_object()) << name << ": " << line;
    }
  }
}

TEST_F(Train, LeavesEventsForTensorBoardAndATimelineForPerfetto) {
  trained({"--workers", "3", "--run", run(), "--timeline", "--strategy", "pairwise", "--codec",
           "top-k", "--mixing-step", "0.05"});
  bool events = false;
  for (const auto& entry : std::filesystem::directory_iterator(run())) {
    events |= entry.path().filename().string().starts_with("events.out.tfevents.");
  }
  EXPECT_TRUE(events);
  const json timeline = json::parse(file_text(run() + "/timeline.json"), nullptr, false);
  ASSERT_TRUE(timeline.is_object());
  std::map<std::string, std::set<int>> ranks;  // that have such spans
  for (const json& event : timeline["traceEvents"]) {
    if (event.contains("cat")) ranks[event["cat"]].insert(event["pid"].get<int>());
  }
  for (const char* kind : {"compute", "wait", "encode", "send", "receive"}) {
    EXPECT_EQ(ranks[kind], (std::set<int>{0, 1, 2})) << kind;
  }
}

TEST_F(Train, GivesTheSameModelForTheSameSeed) {
  for (const char* strategy : {"allreduce", "pairwise"}) {
    const auto model = [&](const std::string& name, const char* seed) {
      const std::string folder = run((strategy + name).c_str());
      trained({"--workers", "2", "--samples", "150", "--strategy", strategy, "--seed", seed,
               "--run", folder});
      return file_text(folder + "/model.safetensors");
    };
    const std::string once = model("-once", "5");
    EXPECT_FALSE(once.empty());
    EXPECT_TRUE(once == model("-again", "5")) << strategy << " is not repeatable";
    EXPECT_FALSE(once == model("-other", "6")) << strategy << " does not heed its seed";
  }
}

TEST_F(Train, CopesWithShardsThatAreNotEven) {
  for (const char* strategy : {"allreduce", "pairwise"}) {
    const json result = trained({"--samples", "61", "--workers", "3", "--batch", "7", "--strategy",
                                 strategy, "--run", run(strategy)});
    EXPECT_EQ(result["samples"], 61) << strategy;
    EXPECT_EQ(result["workers"], 3) << strategy;
  }
}

TEST_F(Train, StopsEarlyOnceItIsGoodEnough) {
  const json result =
      trained({"--workers", "2", "--epochs", "50", "--until", "accuracy=0.05", "--run", run()});
  EXPECT_LT(result["epochs"], 50);
  EXPECT_GE(result["accuracy"], 0.05);
}

// Five words in turn: whoever knows the one before knows what comes, and whoever has learned nothing
// needs log2(15) = 3.9 bits for a character.
TEST_F(Train, LearnsTextInEverySystemThatUpdatesInItsOwnPlace) {
  std::string text;
  for (int line = 0; line < 2'000; ++line) text += "one two three four five\n";
  file("words.txt", text);
  const Words small = {"--data",    "text",     "--data-folder", folder_.path().string(),
                       "--model",   "char-gpt", "--layers",      "1",
                       "--width",   "32",       "--heads",       "2",
                       "--context", "12",       "--batch",       "16",
                       "--samples", "1000",     "--steps",       "60",
                       "--workers", "2",        "--optimizer",   "adamw",
                       "--lr",      "0.01",     "--clip",        "1"};
  for (const char* strategy : {"allreduce", "server", "pairwise"}) {
    Words words = small;
    words.insert(words.end(), {"--strategy", strategy, "--run", run(strategy)});
    const json result = trained(words);
    ASSERT_TRUE(result.is_object()) << result;
    EXPECT_EQ(result["loss_unit"], "bits per character");
    EXPECT_EQ(result["steps"], 60);
    EXPECT_LT(result["loss"], 0.8) << strategy;
    EXPECT_GT(result["accuracy"], 0.8) << strategy;
  }
  Words words = small;
  words.insert(words.end(), {"--until", "loss=0.001", "--strategy", "allreduce"});
  const Ran ran = starling_program(train_words(words), kTrainingPatience);
  EXPECT_EQ(ran.status, "exit 3") << ran.err;
  EXPECT_NE(ran.err.find(", and --until wants 0.001; give it more"), std::string::npos) << ran.err;
}

std::string big_endian(std::size_t word) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift & 0xff);
  return bytes;
}

// Bars of ten widths, in the files that `make fashion-mnist` leaves: any network can tell them apart.
TEST_F(Train, LearnsImagesWithEveryNetworkInEverySystemThatUpdatesInItsOwnPlace) {
  for (const auto& [split, count] : {std::pair("train", 400u), std::pair("t10k", 100u)}) {
    std::string images = big_endian(0x803) + big_endian(count) + big_endian(28) + big_endian(28);
    std::string labels = big_endian(0x801) + big_endian(count);
    for (unsigned i = 0; i < count; ++i) {
      std::string image(28 * 28, '\0');
      const unsigned label = i % 10, noise = i * 7919 % (28 * 28);
      for (unsigned at = 0; at < 2 * (label + 1) * 28; ++at) image[4 * 28 + at] = '\xff';
      image[noise] = '\x80';
      images += image;
      labels += static_cast<char>(label);
    }
    file(fmt::format("{}-images-idx3-ubyte", split).c_str(), images);
    file(fmt::format("{}-labels-idx1-ubyte", split).c_str(), labels);
  }
  const std::vector<std::pair<std::string, Words>> networks = {
      {"resnet", {"--channels", "4", "--norm", "group"}},
      {"resnet", {"--channels", "4", "--norm", "batch"}},
      {"local-net", {"--channels", "2", "--depth", "2"}}};
  int runs = 0;
  for (const auto& [model, sizes] : networks) {
    for (const char* strategy : {"allreduce", "server", "pairwise"}) {
      Words words = {"--data",        "fashion-mnist",
                     "--data-folder", folder_.path().string(),
                     "--samples",     "400",
                     "--batch",       "20",
                     "--steps",       "60",
                     "--lr",          "0.05",
                     "--workers",     "2",
                     "--strategy",    strategy,
                     "--model",       model,
                     "--run",         run(std::to_string(++runs).c_str())};
      words.insert(words.end(), sizes.begin(), sizes.end());
      const json result = trained(words);
      ASSERT_TRUE(result.is_object()) << result;
      EXPECT_GT(result["accuracy"], 0.5) << model << " " << sizes.back() << ", " << strategy;
    }
  }
}

TEST_F(Train, TakesSettingsFromASystemAFileAndFlagsInThisOrder) {
  const std::string settings = file("my.toml", "workers = 3\nbatch = 50\nseed = 9\n");
  const json result = trained({"--system", "horovod", "--settings", settings, "--batch", "40",
                               "--model", "mlp", "--run", run()});
  EXPECT_EQ(result["strategy"], "allreduce");
  EXPECT_EQ(result["workers"], 3);
  EXPECT_EQ(result["steps"], 5);  // 3 x 40 a step
  const std::string kept = file_text(run() + "/settings.toml");
  for (const char* line : {"seed = 9", "batch = 40", "workers = 3"}) {
    EXPECT_NE(kept.find(line), std::string::npos) << kept;
  }
}

// What the live page shows at the end of a run: the server waits for a page that has been watching.
json end_on_the_live_page(Process& process) {
  const auto port = [&] {
    const std::string before = "live page: http://127.0.0.1:", said = process.err();
    const auto at = said.find(before);
    return at == std::string::npos ? 0 : std::atoi(said.c_str() + at + before.size());
  };
  EXPECT_TRUE(wait_until(60s, [&] { return port() != 0; })) << process.story();
  const std::string said = process.err(), after_token = said.substr(said.find("/#") + 2);
  httplib::Client page("127.0.0.1", port());
  page.set_bearer_token_auth(after_token.substr(0, after_token.find_first_of(" \r\n\x1b")));
  json state;
  EXPECT_TRUE(wait_until(kTrainingPatience, [&] {
    const httplib::Result answer = page.Get("/state");
    if (answer) state = json::parse(answer->body, nullptr, false);
    return state.is_object() && state["summary"].is_object();
  })) << process.story();
  return state;
}

// One meaning each: seconds, samples/s, bytes and rounds. --json prints the summary, as another test
// says; the race and the report are compared where the race is run.
TEST_F(Train, TellsTheSameOnTheTerminalTheLivePageAndInTheReport) {
  Words words = train_words({"--workers", "2", "--strategy", "mix", "--graph", "closed-ring",
                             "--evaluate-every", "0.2", "--live", "127.0.0.1:0", "--run", run()});
  std::erase(words, "--json");
  words.insert(words.begin(), STARLING_PROGRAM);
  Process ran(words);
  const json live = end_on_the_live_page(ran);
  ASSERT_EQ(ran.wait(kTrainingPatience), "exit 0") << ran.story();
  const json summary = json::parse(file_text(run() + "/summary.json"));
  const double time = summary["train_seconds"];
  EXPECT_GT(summary["seconds"].get<double>(), time) << "there were evaluations";
  EXPECT_NEAR(summary["samples_per_second"].get<double>(), 600 / time, 1e-6);
  const auto sum = [&](const char* key) {
    double total = 0;
    for (const json& bytes : summary[key]) total += bytes.get<double>();
    return total;
  };
  const double sent = sum("wire_bytes_sent"), in_training = sum("training_bytes_sent");
  const std::string seconds = fmt::format("{:.1f} s", time);
  const std::string speed = format_count(summary["samples_per_second"]);
  const std::string rounds = format_count(summary["mixing"]["rounds"]);
  EXPECT_EQ(rounds, "20") << "10 steps of 2 workers";
  for (const std::string& said :
       {seconds + ", " + speed + " samples/s",
        format_bytes(sent) + " on the wire, " + format_bytes(in_training) + " of them in training",
        rounds + " rounds of all workers"}) {
    EXPECT_NE(ran.out().find(said), std::string::npos) << said << "\n" << ran.out();
  }
  EXPECT_EQ(live["summary"]["train_seconds"], summary["train_seconds"]);
  EXPECT_EQ(live["summary"]["seconds"], summary["seconds"]);
  EXPECT_EQ(live["summary"]["samples_per_second"], summary["samples_per_second"]);
  EXPECT_EQ(live["summary"]["wire_bytes_sent"], sent);
  EXPECT_EQ(live["summary"]["rounds"], summary["mixing"]["rounds"]);
  EXPECT_EQ(live["progress"]["training_time"], summary["train_seconds"]);
  EXPECT_EQ(live["progress"]["samples_per_second"], summary["samples_per_second"]);
  // And its curves end where those of the metrics do.
  const json last = json::parse(lines_of(file_text(run() + "/metrics.jsonl")).back());
  EXPECT_DOUBLE_EQ(last["training_time"].get<double>(), time);
  EXPECT_NEAR(last["samples_per_second"].get<double>(), 600 / time, 1e-6);

  const std::string page = run("report");
  ASSERT_EQ(starling_program({"report", run(), "--out", page}).status, "exit 0");
  const std::string table = file_text(page + "/comparison.md");
  for (const std::string& said :
       {seconds, speed, rounds, format_bytes(sent), format_bytes(in_training)}) {
    EXPECT_NE(table.find("| " + said + " |"), std::string::npos) << said << "\n" << table;
  }
}

TEST_F(Train, ExitsWithACodeOfItsOwnWhereTheGoalIsNotReached) {
  const Ran ran =
      starling_program(train_words({"--workers", "2", "--until", "accuracy=0.999", "--run", run()}),
                       kTrainingPatience);
  EXPECT_EQ(ran.status, "exit 3");
  EXPECT_NE(ran.err.find("--until wants 99.9 %"), std::string::npos) << ran.err;
  EXPECT_TRUE(json::parse(ran.out, nullptr, false).contains("accuracy")) << ran.out;
  const Ran reached = starling_program(
      train_words({"--workers", "2", "--until", "accuracy=0.01", "--run", run("other")}),
      kTrainingPatience);
  EXPECT_EQ(reached.status, "exit 0") << reached.err;
}

TEST_F(Train, TrainsAModelFromATorchScriptFile) {
  const std::string model = (folder_.path() / "model.pt").string();
  Process python({"/usr/bin/python3", "-c",
                  "import sys, torch\n"
                  "net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))\n"
                  "torch.jit.script(net).save(sys.argv[1])\n",
                  model});
  if (python.wait(kTrainingPatience) != "exit 0") {
    GTEST_SKIP() << "no python3 here that can write a TorchScript file";
  }
  const json result = trained({"--workers", "2", "--model", model, "--run", run()});
  EXPECT_EQ(result["parameters"], 7850);
  EXPECT_GT(result["accuracy"], 0.1);
}

TEST_F(Train, RefusesWrongInputsInOneLine) {
  // Ten images announced, nine and a half there.
  const std::string header("\0\0\x08\x03\0\0\0\x0a\0\0\0\x1c\0\0\0\x1c", 16);
  file("train-images-idx3-ubyte", header + std::string(95 * 784 / 10, 'x'));
  const std::string data = folder_.path().string();
  const std::string bad_toml = file("bad.toml", "workers = \n");
  const std::string odd_toml = file("odd.toml", "wrokers = 2\n");
  const std::string bad_model = file("bad.pt", "this is no model");
  const std::string edges = file("edges.txt", "0 1\n1 2\n");
  const std::filesystem::path project = folder_.path() / "project";
  std::filesystem::create_directory(project);
  std::ofstream(project / "settings.toml") << "lr = 0.1\n";

  struct Wrong {
    Words flags;
    Words said;  // the culprit and the remedy
  };
  const std::vector<Wrong> all = {
      {{"--data", "mnist", "--data-folder", "/nonexistent"}, {"/nonexistent", "--data synthetic"}},
      {{"--data", "mnist", "--data-folder", data},
       {"train-images-idx3-ubyte is truncated", "make mnist"}},
      {{"--data", "nosuch"}, {"'nosuch'", "mnist, synthetic"}},
      {{"--passes", "9"}, {"passes = 9", "2 workers", "it can only be 1"}},
      {{"--strategy", "allreduce", "--backward-passes", "1000"},
       {"backward_passes = 1000", "trains on", "take fewer"}},
      {{"--model", "nosuch"}, {"'nosuch'", "mnist-cnn, cnn3, mlp"}},
      {{"--model", "nosuch.pt"}, {"nosuch.pt"}},
      {{"--model", bad_model}, {"bad.pt is not a TorchScript file", "torch.jit.script"}},
      {{"--strategy", "nosuch"}, {"'nosuch'", "allreduce, server"}},
      {{"--lr", "abc"}, {"--lr abc", "a number from 0"}},
      {{"--batch", "100000"}, {"batch = 100000", "training samples", "use at most"}},
      {{"--run", project.string()}, {"is not empty, and no run", "--run"}},
      {{"--run", "/"}, {"/ is not empty", "--run"}},
      {{"--strategy", "mix", "--graph", "file", "--graph-file", edges},
       {"edges.txt joins 3 workers", "there are 2", "--workers 3"}},
      {{"--strategy", "pairwise", "--replicas", "2"}, {"replicas = 2", "no effect"}},
      {{"--batch", "0"}, {"--batch 0", "a whole number from 1"}},
      {{"--epochs", "-1"}, {"--epochs -1"}},
      {{"--until", "soon"}, {"'soon'", "accuracy=0.97"}},
      {{"--settings", "/no/such.toml"}, {"/no/such.toml"}},
      {{"--settings", bad_toml}, {"bad.toml:1"}},
      {{"--settings", odd_toml}, {"odd.toml", "'wrokers'"}},
      {{"--system", "nosuch"}, {"'nosuch'", "horovod, huawei-ring"}},
      {{"--run", "/proc/no/such"}, {"/proc/no/such", "--run"}},
      {{"--live", "nowhere"}, {"--live nowhere", "ADDRESS:PORT"}},
      {{"--live", "203.0.113.1:80"}, {"203.0.113.1:80", "port 0"}},  // not this machine's
      {{"--memory", "1g"}, {"--memory", "--lab"}},
  };
  for (const Wrong& wrong : all) {
    Words flags = {"--workers", "2"};
    flags.insert(flags.end(), wrong.flags.begin(), wrong.flags.end());
    if (wrong.flags[0] != "--run") flags.insert(flags.end(), {"--run", run()});
    const Ran ran = starling_program(train_words(flags), kTrainingPatience);
    EXPECT_EQ(ran.status, "exit 1") << wrong.flags[0] << " " << wrong.flags[1];
    EXPECT_TRUE(ran.in_one_error_line()) << wrong.flags[1] << ":\n" << ran.out << ran.err;
    for (const std::string& words_said : wrong.said) {
      EXPECT_NE(ran.err.find(words_said), std::string::npos) << words_said << " / " << ran.err;
    }
  }
}

TEST_F(Train, LeavesFilesOfOthersAsTheyAre) {
  std::filesystem::create_directory(run());
  std::ofstream(run() + "/settings.toml") << "mine\n";
  EXPECT_EQ(starling_program(train_words({"--run", run()}), kTrainingPatience).status, "exit 1");
  EXPECT_EQ(file_text(run() + "/settings.toml"), "mine\n");
}

TEST_F(Train, DoesNotOverwriteAFinishedRun) {
  std::filesystem::create_directory(run());
  std::ofstream(run() + "/summary.json") << "{}\n";
  const Ran ran = starling_program(train_words({"--run", run()}), kTrainingPatience);
  EXPECT_EQ(ran.status, "exit 1");
  EXPECT_TRUE(ran.in_one_error_line()) << ran.out << ran.err;
  EXPECT_NE(ran.err.find("holds a finished run"), std::string::npos) << ran.err;
}

// A training without end, with its first steps done.
class EndlessTraining : public Train {
 protected:
  EndlessTraining() {
    Words words = train_words({"--workers", "3", "--epochs", "1000000", "--run", run()});
    words.insert(words.begin(), STARLING_PROGRAM);
    process_.emplace(words);
    const auto evaluated = [&] {
      return file_text(run() + "/metrics.jsonl").find("accuracy") != std::string::npos;
    };
    wait_until(kTrainingPatience, [&] { return evaluated() || process_->wait(0ms) != "running"; });
    EXPECT_TRUE(evaluated()) << process_->story();
  }

  std::optional<Process> process_;
};

TEST_F(EndlessTraining, EndsAndNamesTheRankWhoseWorkerIsKilled) {
  for (const Relative& each : process_->family()) {
    if (each.variable("STARLING_RANK") == "1") ::kill(each.pid, SIGKILL);
  }
  EXPECT_EQ(process_->wait(10s), "exit 1") << process_->story();
  const Words errors = process_->err_lines_with("error: ");
  ASSERT_EQ(errors.size(), 1u) << process_->err();
  EXPECT_TRUE(errors[0].starts_with("error: rank 1 was killed by signal 9 (Killed)")) << errors[0];
  EXPECT_NE(errors[0].find("rank 1 was lost in "), std::string::npos) << errors[0];
  EXPECT_TRUE(process_->gone_within(5s)) << process_->story();
  const json summary = json::parse(file_text(run() + "/summary.json"));
  EXPECT_EQ(summary["ended"], "failed");
  EXPECT_EQ(summary["reason"].get<std::string>().find("rank 1 was killed by signal 9"), 0u);
  EXPECT_GT(summary["steps"], 0);
  EXPECT_FALSE(summary.contains("accuracy"));
  EXPECT_TRUE(std::filesystem::exists(run() + "/model.safetensors"));
}

TEST_F(EndlessTraining, EndsOnCtrlC) {
  process_->signal_group(SIGINT);
  EXPECT_EQ(process_->wait(5s), "exit 130") << process_->story();
  const json summary = json::parse(file_text(run() + "/summary.json"));
  EXPECT_EQ(process_->err_lines_with("error: "),
            Words{"error: interrupted by Ctrl-C; it had come to step " + summary["steps"].dump()});
  EXPECT_TRUE(process_->gone_within(5s)) << process_->story();
  EXPECT_EQ(summary["ended"], "interrupted");
  EXPECT_EQ(summary["reason"], "interrupted by Ctrl-C");
  EXPECT_EQ(summary["wire_bytes_sent"].size(), 3u);
  EXPECT_NE(file_text(run() + "/model.safetensors")
                .find("rank 0's model after step " + summary["steps"].dump()),
            std::string::npos);
  // It is no finished run, so another may take its place, and leaves nothing of it.
  const Ran again =
      starling_program(train_words({"--epochs", "0.1", "--run", run()}), kTrainingPatience);
  EXPECT_EQ(again.status, "exit 0") << again.err;
  EXPECT_FALSE(json::parse(file_text(run() + "/summary.json")).contains("ended"));
  EXPECT_EQ(file_text(run() + "/model.safetensors").find("after step"), std::string::npos);
}

TEST_F(EndlessTraining, EndsAtOnceOnASecondCtrlC) {
  for (const Relative& each : process_->family()) {  // one that does not hear the first
    if (each.variable("STARLING_RANK") == "0") ::kill(each.pid, SIGSTOP);
  }
  process_->signal(SIGINT);
  std::this_thread::sleep_for(500ms);
  process_->signal(SIGINT);
  EXPECT_EQ(process_->wait(5s), "exit 130") << process_->story();
  EXPECT_TRUE(process_->gone_within(5s)) << process_->story();
}

TEST_F(EndlessTraining, LeavesNobodyBehindWhenItIsKilledItself) {
  process_->signal(SIGKILL);
  EXPECT_TRUE(process_->gone_within(5s)) << process_->story();
}

// Two commands that should have been the same.
class TrainOnTwoMachines : public TwoMachines {
 protected:
  struct Outcome {
    std::string status, error;
  };
  std::pair<Outcome, Outcome> train(const Words& both, const Words& first, const Words& second) {
    const auto words = [&](int number, const Words& own) {
      Words more = both;
      more.insert(more.end(), own.begin(), own.end());
      Words all = train_words(more);
      all.insert(all.begin(), STARLING_PROGRAM);
      const std::string run = (folder_.path() / std::to_string(number)).string();
      const Words where = machine_flags(number, "secret", number == 0 ? "60" : "50");
      all.insert(all.end(), where.begin(), where.end());
      all.insert(all.end(), {"--run", run});
      return all;
    };
    Process one(words(1, second)), zero(words(0, first));
    const std::string ends[] = {zero.wait(kTrainingPatience), one.wait(kTrainingPatience)};
    return {{ends[0], zero.err()}, {ends[1], one.err()}};
  }
};

TEST_F(TrainOnTwoMachines, NamesTheSettingsThatAreNotAlike) {
  struct Case {
    Words both, first, second;
    std::string zero_has, one_has;
  };
  const std::vector<Case> cases = {
      {{"--workers", "2"}, {}, {"--lr", "0.9"}, "lr = 0.1", "lr = 0.9"},
      {{"--workers", "2"}, {"--epochs", "2"}, {"--epochs", "3"}, "epochs = 2.0", "epochs = 3.0"},
      {{}, {"--workers", "2"}, {"--workers", "4"}, "workers = 2", "workers = 4"},
      {{"--workers", "2", "--strategy", "server"},
       {"--servers", "1"},
       {"--servers", "2"},
       "servers = 1",
       "servers = 2"},
  };
  for (const Case& each : cases) {
    const auto [zero, one] = train(each.both, each.first, each.second);
    EXPECT_EQ(zero.status, "exit 1") << zero.error;
    EXPECT_EQ(one.status, "exit 1") << one.error;
    for (const std::string& has : {each.zero_has, each.one_has}) {
      EXPECT_NE(zero.error.find(has), std::string::npos) << zero.error;
      EXPECT_NE(one.error.find(has), std::string::npos) << one.error;
    }
    EXPECT_NE(zero.error.find("start all machines with the same settings"), std::string::npos);
  }
}

// What is a machine's own: its folders, how slow it is, how long it waits.
TEST_F(TrainOnTwoMachines, MayHaveFoldersOfTheirOwn) {
  const auto [zero, one] = train({"--workers", "2"}, {"--data-folder", "/here", "--slow", "1:2"},
                                 {"--data-folder", "/there"});
  EXPECT_EQ(zero.status, "exit 0") << zero.error;
  EXPECT_EQ(one.status, "exit 0") << one.error;
}

}  // namespace
}  // namespace starling
