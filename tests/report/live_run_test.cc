// The state behind the live page, from events as workers send them: whole, hostile and none.
#include "report/live_run.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

using nlohmann::json;

class LiveRunTest : public testing::Test {
 protected:
  json state() const { return json::parse(run_.state()); }
  void network(int rank, double time, double sent, const char* sent_to) {
    run_.take(rank, {{"event", "network"},
                     {"time", time},
                     {"sent", {{"weights", {{"payload", sent}, {"wire", sent}}}}},
                     {"received", {{"weights", {{"payload", 5}, {"wire", 5}}}}},
                     {"sent_to", json::parse(sent_to)}});
  }

  double now_ = 0;
  LiveRun run_{{.name = "a run", .workers = 2, .servers = 1, .settings = {{"lr", 0.1}}},
               [this] { return now_; }};
};

TEST_F(LiveRunTest, BeforeAnythingHappenedAllAreStarting) {
  const json seen = state();
  EXPECT_EQ(seen["state"], "starting");
  ASSERT_EQ(seen["workers"].size(), 3u);
  EXPECT_EQ(seen["workers"][0]["state"], "starting");
  EXPECT_EQ(seen["workers"][1]["role"], "worker");
  EXPECT_EQ(seen["workers"][2]["role"], "server");
  EXPECT_TRUE(seen["progress"]["loss"].is_null());
  EXPECT_TRUE(seen["progress"]["accuracy"].is_null());
  EXPECT_TRUE(seen["edges"].empty());
  EXPECT_TRUE(seen["log"].empty());
}

TEST_F(LiveRunTest, CurvesGrowWithTheLeadsReports) {
  run_.take(0, {{"event", "joined"}});
  now_ = 1;
  run_.take(0, {{"event", "progress"}, {"time", 1}, {"step", 10}, {"steps", 40}, {"loss", 2.5}});
  now_ = 2;
  run_.take(0, {{"event", "evaluation"},
                {"time", 2},
                {"step", 20},
                {"steps", 40},
                {"loss", 1.5},
                {"accuracy", 0.75}});
  const json seen = state();
  EXPECT_EQ(seen["state"], "training");
  EXPECT_EQ(seen["curves"]["loss"], json::parse("[[1,2.5],[2,1.5]]"));
  EXPECT_EQ(seen["curves"]["accuracy"], json::parse("[[2,0.75]]"));
  EXPECT_EQ(seen["progress"]["accuracy"], 0.75);
  EXPECT_EQ(seen["progress"]["seconds_left"], 2.0);
}

TEST_F(LiveRunTest, TheTimeLeftIsThatOfTheStepsLeft) {
  run_.take(0, {{"event", "progress"}, {"time", 5}, {"step", 10}, {"steps", 40}});
  EXPECT_EQ(state()["progress"]["seconds_left"], 15.0);
}

TEST_F(LiveRunTest, TheTimeLeftOfALoopThatDoesNotTellItsStepsIsNotKnown) {
  run_.take(0, {{"event", "progress"}, {"time", 5}, {"step", 10}});
  EXPECT_TRUE(state()["progress"]["seconds_left"].is_null());
}

TEST_F(LiveRunTest, TheLogKeepsItsLastLines) {
  for (int i = 0; i < 500; ++i) run_.take(0, {{"event", "joined"}});
  run_.take_end(1, "the last line");
  const json log = state()["log"];
  EXPECT_EQ(log.size(), 200u);
  EXPECT_EQ(log.back()["text"], "the last line");
}

TEST_F(LiveRunTest, EdgesHaveTheRateBetweenTwoReports) {
  network(0, 1, 100, "[[1,100]]");
  network(0, 3, 500, "[[1,500]]");
  const json edge = state()["edges"][0];
  EXPECT_EQ(edge["from"], 0);
  EXPECT_EQ(edge["to"], 1);
  EXPECT_EQ(edge["bytes"], 500.0);
  EXPECT_EQ(edge["rate"], 200.0);
  EXPECT_EQ(state()["workers"][0]["sent"], 500.0);
  EXPECT_EQ(state()["workers"][0]["sent_rate"], 200.0);
}

TEST_F(LiveRunTest, AServerReportsForItself) {
  network(0, 1, 100, "[[2,100]]");
  network(2, 1, 120, "[[0,70],[1,50]]");
  const json seen = state();
  EXPECT_EQ(seen["workers"][2]["sent"], 120.0);
  EXPECT_EQ(seen["edges"].size(), 3u);
  EXPECT_NE(run_.metrics().find("starling_bytes_sent_total{rank=\"2\",purpose=\"weights\"} 120\n"),
            std::string::npos);
}

TEST_F(LiveRunTest, ALostWorkerSaysWhyAndItsEdgesStandStill) {
  network(0, 1, 100, "[[1,100]]");
  run_.take_end(1, "rank 1 was killed");
  const json seen = state();
  EXPECT_EQ(seen["workers"][1]["state"], "lost");
  EXPECT_EQ(seen["workers"][1]["reason"], "rank 1 was killed");
  EXPECT_EQ(seen["edges"][0]["rate"], 0);
  EXPECT_EQ(seen["log"].back()["text"], "rank 1 was killed");
  EXPECT_NE(run_.metrics().find("starling_worker_up{rank=\"1\"} 0\n"), std::string::npos);
  EXPECT_NE(run_.metrics().find("starling_worker_up{rank=\"0\"} 1\n"), std::string::npos);
}

TEST_F(LiveRunTest, TellsHowItEnded) {
  run_.finish("");
  EXPECT_EQ(state()["state"], "ended");
  run_.finish("rank 3: no space");
  EXPECT_EQ(state()["state"], "failed");
  EXPECT_EQ(state()["message"], "rank 3: no space");
}

TEST_F(LiveRunTest, SurvivesEventsThatMakeNoSense) {
  for (const char* text :
       {R"({"event": 7})", R"({})", R"({"event":"lost","reason":[1]})",
        R"({"event":"network","sent_to":7,"received_from":{"a":1}})",
        R"({"event":"network","sent_to":[[99,1],[3,1],[-1,2],["x",3],[1],[1,"y"]],"sent":[1]})",
        R"({"event":"evaluation","accuracy":"high","loss":null,"time":"now"})"}) {
    run_.take(0, json::parse(text));
    EXPECT_TRUE(state()["edges"].empty()) << text;
  }
  EXPECT_FALSE(run_.metrics().empty());
}

TEST_F(LiveRunTest, ANameThatIsNoUtf8DoesNotStopThePage) {
  const LiveRun run({.name = "\xff\xfe<script>", .workers = 1, .settings = {}}, [] { return 0.0; });
  EXPECT_TRUE(json::parse(run.state(), nullptr, false).is_object());
}

TEST_F(LiveRunTest, MetricsHaveTheBytesOfEveryPurpose) {
  json counts;
  for (const char* purpose : {"control", "weights", "gradients", "evaluation"}) {
    counts[purpose] = {{"wire", 7}};
  }
  run_.take(1, {{"event", "network"}, {"time", 1}, {"sent", counts}});
  const std::string text = run_.metrics();
  for (const char* purpose : {"control", "weights", "gradients", "evaluation"}) {
    const std::string line =
        std::string("starling_bytes_sent_total{rank=\"1\",purpose=\"") + purpose + "\"} 7\n";
    EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
  }
}

TEST_F(LiveRunTest, MetricsAreInPrometheusFormat) {
  network(0, 1, 1234, "[[1,1234]]");
  run_.take(0, {{"event", "progress"}, {"time", 1}, {"step", 10}, {"steps", 40}, {"loss", 2.5}});
  const std::string text = run_.metrics();
  for (const char* line : {"# TYPE starling_step gauge\nstarling_step 10\n", "starling_loss 2.5\n",
                           "# TYPE starling_bytes_sent_total counter\n",
                           "starling_bytes_sent_total{rank=\"0\",purpose=\"weights\"} 1234\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
  }
  EXPECT_EQ(text.find("starling_accuracy"), std::string::npos);  // not known yet
}

TEST(Curve, NeverHasMorePointsThanThatAndKeepsItsShape) {
  Curve curve;
  for (int i = 0; i < 100'000; ++i) {
    curve.add(i, 2 * i);
    ASSERT_LT(curve.points().size(), Curve::kMostPoints);
  }
  EXPECT_GE(curve.points().size(), Curve::kMostPoints / 4);
  EXPECT_EQ(curve.points().front().first, 0);
  EXPECT_GT(curve.points().back().first, 99'000);
  for (std::size_t i = 1; i < curve.points().size(); ++i) {
    EXPECT_LT(curve.points()[i - 1].first, curve.points()[i].first);
    EXPECT_EQ(curve.points()[i].second, 2 * curve.points()[i].first);
  }
}

// Its points lie evenly, the old ones and the new ones.
TEST(Curve, LosesEveryOtherPointWhenItIsFull) {
  constexpr int kMost = Curve::kMostPoints;
  Curve curve;
  for (int i = 0; i < 3 * kMost / 2; ++i) curve.add(i, 0);
  ASSERT_EQ(curve.points().size(), 3 * Curve::kMostPoints / 4);
  for (std::size_t i = 0; i < curve.points().size(); ++i) {
    EXPECT_EQ(curve.points()[i].first, 2 * static_cast<double>(i));
  }
}

TEST_F(LiveRunTest, EndsWithTheFiguresOfTheSummary) {
  EXPECT_TRUE(state()["summary"].is_null());
  run_.sum_up(run_summary_in({{"accuracy", 0.97},
                              {"train_seconds", 11.2},
                              {"seconds", 13.5},
                              {"samples_per_second", 16005.0},
                              {"wire_bytes_sent", {100, 50}},
                              {"mixing", {{"rounds", 2820}}}}));
  const json ended = state();
  EXPECT_EQ(ended["progress"]["training_time"], 11.2);
  EXPECT_EQ(ended["progress"]["samples_per_second"], 16005.0);
  EXPECT_EQ(ended["summary"]["train_seconds"], 11.2);
  EXPECT_EQ(ended["summary"]["wire_bytes_sent"], 150.0);
  EXPECT_EQ(ended["summary"]["rounds"], 2820.0);
}

}  // namespace
}  // namespace starling
