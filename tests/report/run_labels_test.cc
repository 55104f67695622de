#include "report/run_labels.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

RunData run_of(const std::string& name, const std::string& settings) {
  RunData run;
  run.name = name;
  run.settings = settings;
  return run;
}

TEST(RunLabels, LeaveOutTheTimeThatTrainPutsInFront) {
  const std::vector<RunData> runs = {run_of("2026-11-17-124243-pairwise-4", "lr = 0.1"),
                                     run_of("2026-11-17-mine", "lr = 0.1")};
  EXPECT_EQ(run_labels(runs), (std::vector<std::string>{"pairwise-4", "2026-11-17-mine"}));
}

TEST(RunLabels, SayWhatDiffersWhereNamesAreTheSame) {
  const std::vector<RunData> runs = {
      run_of("2026-11-17-000001-pairwise-4", "lr = 0.10000000000000001\nperiod = 1\npasses = 1"),
      run_of("2026-11-17-000002-pairwise-4", "lr = 0.029999999999999999\nperiod = 1\npasses = 1"),
      run_of("2026-11-17-000003-pairwise-4", "lr = 0.1\nperiod = 16\npasses = 1"),
      run_of("2026-11-17-000004-horovod-4", "lr = 0.5")};
  EXPECT_EQ(run_labels(runs),
            (std::vector<std::string>{"pairwise-4 lr=0.1 period=1", "pairwise-4 lr=0.03 period=1",
                                      "pairwise-4 lr=0.1 period=16", "horovod-4"}));
}

TEST(RunLabels, NumberThoseThatNothingTellsApart) {
  const std::vector<RunData> runs = {run_of("one", "lr = 1"), run_of("one", "lr = 1"),
                                     run_of("one", "this is no TOML")};
  EXPECT_EQ(run_labels(runs), (std::vector<std::string>{"one lr=1", "one lr=1 (2)", "one lr="}));
}

TEST(RunLabels, TellRunsOnOtherData) {
  const RunData mnist = run_of("a", "data = 'mnist'\nsamples = 0\nmodel = 'mlp'\nseed = 1");
  const RunData seeded = run_of("b", "data = 'mnist'\nsamples = 0\nmodel = 'mlp'\nseed = 2");
  const RunData fewer = run_of("c", "data = 'mnist'\nsamples = 100\nmodel = 'mlp'\nseed = 1");
  EXPECT_TRUE(unlike(std::vector{mnist, seeded}).empty());
  EXPECT_TRUE(alike(mnist, seeded));
  EXPECT_FALSE(alike(mnist, fewer));
  EXPECT_EQ(unlike(std::vector{mnist, seeded, fewer}),
            std::vector<std::string>{"samples: all (2 runs), 100 (1 run)"});
}

}  // namespace
}  // namespace starling
