#include "plan/pipeline_plan.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

// Three layers of 1 s there and 2 s back, with round numbers of bytes.
std::vector<LayerCost> three() {
  return {{"a", 1, 2, 1'000, 10, 30}, {"b", 1, 2, 2'000, 20, 50}, {"c", 1, 2, 3'000, 5, 70}};
}
constexpr StageLink kFree{.bytes_per_second = 1e30};
const std::vector<Range> kCut = {{0, 1}, {1, 2}, {2, 3}};

TEST(PlanPipeline, TakesAsLongAsTheFormulaWhereAllStagesAreAlike) {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::naive, PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    for (int m : {1, 4, 9}) {
      const PipelinePlan plan =
          plan_pipeline(three(), kCut, {.schedule = schedule, .micro_batches = m, .link = kFree});
      EXPECT_NEAR(plan.bubble, even_bubble(schedule, 3, m), 1e-9) << name_of(schedule) << m;
      EXPECT_DOUBLE_EQ(plan.alone_seconds, 9.0 * m);
      EXPECT_NEAR(plan.step_seconds, plan.alone_seconds / 3 / (1 - plan.bubble), 1e-9);
    }
  }
}

TEST(PlanPipeline, CountsWhatEachStageSendsInAStep) {
  const PipelinePlan plan = plan_pipeline(three(), kCut, {.micro_batches = 4, .link = kFree}, 7);
  EXPECT_EQ(plan.stages[0].sent_bytes, 4u * 10 + 7) << "activations on, and the tied gradient";
  EXPECT_EQ(plan.stages[1].sent_bytes, 4u * 20 + 4 * 10) << "activations on, gradients back";
  EXPECT_EQ(plan.stages[2].sent_bytes, 4u * 20 + 7);
  EXPECT_EQ(plan.stages[0].parameter_bytes, 1'000u);
  EXPECT_EQ(plan.stages[1].parameter_bytes, 2'000u);
  EXPECT_EQ(plan.stages[2].parameter_bytes, 3'007u) << "with its copy";
  const PipelinePlan two = plan_pipeline(three(), std::vector<Range>{{0, 2}, {2, 3}}, {});
  EXPECT_EQ(two.stages[0].sent_bytes, 4u * 20) << "what its last layer gives";
  const PipelinePlan whole = plan_pipeline(three(), std::vector<Range>{{0, 3}}, {}, 7);
  EXPECT_EQ(whole.stages[0].sent_bytes, 0u);
  EXPECT_EQ(whole.stages[0].parameter_bytes, 6'000u);
}

TEST(PlanPipeline, KeepsActivationsAsTheScheduleHasIt) {
  const auto kept = [](PipelineSchedule schedule, bool recompute) {
    std::vector<std::uint64_t> bytes;
    for (const StagePlan& stage :
         plan_pipeline(three(), kCut,
                       {.schedule = schedule, .micro_batches = 4, .recompute = recompute})
             .stages) {
      bytes.push_back(stage.kept_bytes);
    }
    return bytes;
  };
  using Bytes = std::vector<std::uint64_t>;
  // What a micro-batch leaves in a stage: what came in, and what its layers keep.
  EXPECT_EQ(kept(PipelineSchedule::naive, false), (Bytes{30, 60, 90}));
  EXPECT_EQ(kept(PipelineSchedule::gpipe, false), (Bytes{4 * 30, 4 * 60, 4 * 90}));
  EXPECT_EQ(kept(PipelineSchedule::one_f_one_b, false), (Bytes{3 * 30, 2 * 60, 90}));
  // With recompute, all inputs, and the rest of one.
  EXPECT_EQ(kept(PipelineSchedule::naive, true), (Bytes{30, 60, 90}));
  EXPECT_EQ(kept(PipelineSchedule::gpipe, true), (Bytes{30, 3 * 10 + 60, 3 * 20 + 90}));
  EXPECT_EQ(kept(PipelineSchedule::one_f_one_b, true), (Bytes{30, 10 + 60, 90}));
}

TEST(PlanPipeline, ComputesAgainWhatDidNotGoBackAtOnce) {
  const auto backward = [](PipelineSchedule schedule) {
    std::vector<double> seconds;
    for (const StagePlan& stage :
         plan_pipeline(three(), kCut, {.schedule = schedule, .micro_batches = 4, .recompute = true})
             .stages) {
      seconds.push_back(stage.backward_seconds);
    }
    return seconds;
  };
  EXPECT_EQ(backward(PipelineSchedule::naive), (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(backward(PipelineSchedule::one_f_one_b), (std::vector<double>{3, 3, 2}));
  EXPECT_EQ(backward(PipelineSchedule::gpipe), (std::vector<double>{2.75, 2.75, 2.75}))
      << "all but the last";
}

TEST(PlanPipeline, WaitsForItsLinks) {
  const StageLink slow{.bytes_per_second = 10, .latency_seconds = 0.5};
  const PipelinePlan plan = plan_pipeline(three(), std::vector<Range>{{0, 1}, {1, 3}},
                                          {.micro_batches = 1, .link = slow});
  EXPECT_DOUBLE_EQ(plan.step_seconds, 9 + 2 * 1.5);
}

}  // namespace
}  // namespace starling
