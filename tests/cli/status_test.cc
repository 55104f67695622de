// A job of which one worker is stopped: the launcher says who waits for whom, and so does
// `starling status`.
#include <gtest/gtest.h>

#include <set>

#include "tests/cli/starling_program.h"

namespace starling {
namespace {

using nlohmann::json;

class AStoppedWorker : public testing::Test {
 protected:
  Process job_{{STARLING_PROGRAM, "launch", "--workers", "3", "--stall", "1s", "--",
                STARLING_PROGRAM, "bench", "exchange-worker", "--algorithms", "ring", "--bytes",
                "16777216", "--seconds", "60"}};

  json status() {
    const Ran ran = starling_program({"status", std::to_string(job_.pid()), "--json"});
    const json said = json::parse(ran.out, nullptr, false);
    return said.is_object() && said.contains("jobs") && !said["jobs"].empty() ? said["jobs"][0]
                                                                              : json::object();
  }
  pid_t worker(int rank) {
    for (const Relative& each : job_.family()) {
      if (each.variable("STARLING_RANK") == std::to_string(rank)) return each.pid;
    }
    return -1;
  }
  bool all_exchange() {
    const json now = status();
    if (!now.contains("ranks") || now["ranks"].size() != 3) return false;
    return std::ranges::all_of(now["ranks"], [](const json& rank) {
      return rank.value("joined", false) && rank.value("wire_bytes", 0L) > 10'000;
    });
  }
};

TEST_F(AStoppedWorker, IsNamedByTheLauncherAndByStatus) {
  ASSERT_TRUE(wait_until(30s, [&] { return all_exchange(); })) << job_.story();
  EXPECT_EQ(job_.err().find("nothing has moved"), std::string::npos) << job_.err();
  const auto check = [&](const std::vector<std::string>& how) {
    std::vector<std::string> words = {"status", std::to_string(job_.pid())};
    words.insert(words.end(), how.begin(), how.end());
    return starling_program(words);
  };
  EXPECT_EQ(check({"--alive", "60s"}).status, "exit 0");
  ASSERT_GT(worker(1), 0);
  ::kill(worker(1), SIGSTOP);
  const std::string culprit = "rank 1 keeps the others waiting";
  ASSERT_TRUE(wait_until(30s, [&] { return !job_.err_lines_with(culprit).empty(); }))
      << job_.story();
  EXPECT_EQ(job_.err_lines_with("rank 1 is stopped").size(), 1u) << job_.err();
  EXPECT_EQ(job_.err_lines_with("rank 2 waits for rank 1 in").size(), 1u) << job_.err();
  const json now = status();
  EXPECT_EQ(now["culprits"], culprit) << now;
  EXPECT_EQ(now["ranks"][1]["stopped"], true) << now;
  EXPECT_EQ(now["ranks"][2]["waits_for"], json::array({1})) << now;
  const Ran dead = check({"--alive", "60s"}), closed = check({"--ready"});
  EXPECT_TRUE(dead.in_one_error_line()) << dead.err;
  EXPECT_NE(dead.err.find("rank 1"), std::string::npos) << dead.err;
  EXPECT_TRUE(closed.in_one_error_line()) << closed.err;  // it is not elastic
  const Ran table = check({});
  EXPECT_NE(table.out.find("is stopped"), std::string::npos) << table.out;
  ::kill(worker(1), SIGCONT);
  EXPECT_TRUE(wait_until(30s, [&] { return !job_.err_lines_with("it moves again").empty(); }))
      << job_.story();
  EXPECT_EQ(job_.err_lines_with("nothing has moved").size(), 1u) << job_.err();
}

TEST(Status, SaysWhenThereIsNothingToShow) {
  const TemporaryFolder own;
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {STARLING_PROGRAM, "status"});
    Process process(words, {"XDG_RUNTIME_DIR=" + own.path().string()});
    const std::string status = process.wait(30s);
    return Ran{status, process.out(), process.err()};
  };
  EXPECT_NE(run({}).out.find("no job of yours runs"), std::string::npos);
  EXPECT_EQ(run({"--json"}).out, "{\"jobs\":[]}\n");
  EXPECT_TRUE(run({"--ready"}).in_one_error_line());
  EXPECT_TRUE(run({"--alive", "60s"}).in_one_error_line());
}

TEST(Status, StallIsATimeOrOff) {
  for (const char* wrong : {"0s", "20", "soon", "-1s", "10ms"}) {
    const Ran ran = starling_program({"launch", "--stall", wrong, "--", "true"});
    EXPECT_TRUE(ran.in_one_error_line()) << wrong << ": " << ran.err;
  }
  EXPECT_EQ(starling_program({"launch", "--stall", "off", "--", "true"}).status, "exit 0");
}

}  // namespace
}  // namespace starling
