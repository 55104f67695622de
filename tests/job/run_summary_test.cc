#include "job/run_summary.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace starling {
namespace {

using nlohmann::json;

// Every field of its own, so that one that is mixed up with another is seen.
struct Numberer {
  int& count;
  void operator()(const char*, std::optional<double>& value) const { value = ++count + 0.5; }
  void operator()(const char*, std::optional<std::uint64_t>& value) const {
    value = (std::uint64_t{1} << 60) + static_cast<std::uint64_t>(++count);
  }
  void operator()(const char*, std::optional<std::int64_t>& value) const { value = ++count; }
  void operator()(const char* key, std::optional<std::string>& value) const { value = key; }
  void operator()(const char*, std::optional<std::vector<std::uint64_t>>& value) const {
    value = {3, 0, static_cast<std::uint64_t>(++count)};
  }
  void operator()(const char* key, std::optional<std::vector<std::string>>& value) const {
    value = {key, "again"};
  }
  template <class Part>
  void operator()(const char*, std::optional<Part>& value) const {
    Part::visit(value.emplace(), *this);
  }
};

// Worker 1 of 3 is lost.
RunSummary whole_summary() {
  RunSummary summary;
  int count = 0;
  RunSummary::visit(summary, Numberer{count});
  summary.workers = 3;
  summary.ranks.resize(4);
  for (RankSummary& rank : summary.ranks) RankSummary::visit_bytes(rank, Numberer{count});
  for (std::size_t i = 0; i < 2; ++i) {
    RankSummary::visit_work(summary.ranks[i], Numberer{count});
    summary.ranks[i].rank = i == 0 ? 0 : 2;
    summary.ranks[i + 2].role = RankSummary::Role::server;
    summary.ranks[i + 2].rank = 3 + static_cast<std::int64_t>(i);
  }
  return summary;
}

TEST(RunSummary, ComesBackAsItWasWritten) {
  const RunSummary before = whole_summary();
  const json file = json::parse(as_json(before).dump());
  const RunSummary after = run_summary_in(file);
  EXPECT_EQ(as_json(after), file);
  ASSERT_EQ(after.ranks.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(after.ranks[i].role, before.ranks[i].role) << i;
    EXPECT_EQ(after.ranks[i].rank, before.ranks[i].rank) << i;
    EXPECT_EQ(after.ranks[i].wire_bytes_sent, before.ranks[i].wire_bytes_sent) << i;
  }
  EXPECT_EQ(after.servers->staleness.max, before.servers->staleness.max);
}

TEST(RunSummary, HasServersBehindTheWorkersInItsLists) {
  const RunSummary summary = whole_summary();
  const json file = as_json(summary);
  EXPECT_EQ(file["worker_rank"], (json{0, 2}));
  EXPECT_EQ(file["worker_accuracy"].size(), 2u);
  ASSERT_EQ(file["wire_bytes_sent"].size(), 4u);
  EXPECT_EQ(file["wire_bytes_sent"][3], *summary.ranks[3].wire_bytes_sent);
}

TEST(RunSummary, SaysNothingOfWhatNobodyHasTold) {
  RunSummary summary;
  summary.run = "runs/one";
  EXPECT_EQ(as_json(summary), (json{{"run", "runs/one"}}));
}

// Runs from before ranks were listed, and PyTorch DDP's.
TEST(RunSummary, TakesTheFirstOfAListForWorkersWhereRanksAreNotNamed) {
  const RunSummary summary =
      run_summary_in({{"workers", 2}, {"wire_bytes_sent", {1, 3, 10}}, {"waited_seconds", {1, 2}}});
  ASSERT_EQ(summary.ranks.size(), 3u);
  EXPECT_EQ(summary.ranks[1].role, RankSummary::Role::worker);
  EXPECT_EQ(summary.ranks[2].role, RankSummary::Role::server);
  EXPECT_EQ(summary.ranks[2].rank, 2);
  EXPECT_EQ(summary.sum(&RankSummary::wire_bytes_sent), 14);
  EXPECT_EQ(summary.mean_of_workers(&RankSummary::wire_bytes_sent), 2);
  EXPECT_FALSE(summary.has(&RankSummary::kernel_bytes_sent));
}

TEST(RunSummary, PassesOverWhatIsNotAsItShouldBe) {
  for (const json& file : {json(), json(7), json::array({1}), json{{"accuracy", nullptr}},
                           json{{"accuracy", "good"}, {"servers", 3}, {"lost", 5}},
                           json{{"workers", -1}, {"worker_rank", {{"a", 1}}}}}) {
    const RunSummary summary = run_summary_in(file);
    EXPECT_EQ(summary.accuracy, std::nullopt) << file;
    EXPECT_FALSE(summary.servers) << file;
    EXPECT_TRUE(summary.ranks.empty()) << file;
  }
  const RunSummary odd = run_summary_in({{"workers", 2}, {"wire_bytes_sent", {"x", 5}}});
  EXPECT_EQ(odd.ranks[0].wire_bytes_sent, std::nullopt);
  EXPECT_EQ(odd.sum(&RankSummary::wire_bytes_sent), 5);
  RunSummary diverged;
  diverged.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(run_summary_in(json::parse(as_json(diverged).dump())).loss, std::nullopt);
}

TEST(RunSummary, CountsStalenessUpToTheLastThatWasSeen) {
  Staleness staleness;
  for (const std::uint64_t steps : {0, 0, 2}) staleness.add(steps);
  const StalenessSummary summary(staleness);
  EXPECT_EQ(summary.histogram, (std::vector<std::uint64_t>{2, 0, 1}));
  EXPECT_EQ(summary.max, 2u);
}

TEST(RunSummary, OfAServerIsWhatItTellsTheLauncher) {
  RankSummary told;
  told.role = RankSummary::Role::server;
  told.wire_bytes_sent = 9;
  told.kernel_bytes_received = 4;
  const json event = as_json(told);
  EXPECT_EQ(event, (json{{"wire_bytes_sent", 9}, {"kernel_bytes_received", 4}}));
  const RankSummary heard = rank_summary_in(event, RankSummary::Role::server, 5);
  EXPECT_EQ(heard.role, RankSummary::Role::server);
  EXPECT_EQ(heard.rank, 5);
  EXPECT_EQ(heard.kernel_bytes_received, 4u);
}

}  // namespace
}  // namespace starling
