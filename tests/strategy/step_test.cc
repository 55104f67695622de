#include "strategy/step.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/counted_allocations.h"
#include "tests/error_of.h"
#include "tests/strategy/workers.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

// One behind the other, of these sizes.
std::vector<Range> parameters_of(const std::vector<std::size_t>& sizes) {
  std::vector<Range> ranges;
  std::size_t begin = 0;
  for (std::size_t size : sizes) {
    ranges.push_back({begin, begin + size});
    begin += size;
  }
  return ranges;
}

// A training whose gradients are drawn from a seed, with several backward passes to a step, in each
// of which a worker's loss depends on some of the parameters only.
struct Script {
  Settings settings;
  std::vector<Range> parameters;
  std::size_t full = 0;  // elements of a bucket
  int steps = 3;

  std::size_t elements() const { return parameters.back().end; }
  Random draw(std::size_t rank, int step, int pass, std::size_t parameter) const {
    return Random{rank, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(pass),
                  parameter};
  }
  bool has_gradient(std::size_t rank, int step, int pass, std::size_t parameter) const {
    return draw(rank, step, pass, parameter).uniform() < 0.7;
  }
  template <class Values>
  void add_gradient(std::size_t rank, int step, int pass, std::size_t parameter,
                    Values& gradients) const {
    Random random = draw(rank, step, pass, parameter);
    for (std::size_t i = parameters[parameter].begin; i < parameters[parameter].end; ++i) {
      gradients[i] +=
          static_cast<typename Values::value_type>(static_cast<float>(random.uniform(-1, 1)));
    }
  }
};

Task<> follow(const Script& script, Comm& comm, Floats& weights, std::vector<int>& updates) {
  const auto rank = static_cast<std::size_t>(comm.rank());
  Floats gradients(script.elements());
  const Replica replica{weights, gradients};
  const std::vector<Bucket> buckets = make_buckets(replica, script.parameters, script.full);
  Workload workload;
  workload.buckets = ranges_of(buckets);
  const auto strategy = make_strategy(script.settings, comm, workload);
  Step step(*strategy, replica, buckets, script.settings.backward_passes);
  co_await strategy->start(replica);
  for (int t = 0; t < script.steps; ++t) {
    for (int pass = 0; pass < script.settings.backward_passes; ++pass) {
      for (std::size_t i = script.parameters.size(); i-- > 0;) {
        if (!script.has_gradient(rank, t, pass, i)) continue;
        script.add_gradient(rank, t, pass, i, gradients);
        step.gradient_ready(i, "it");
        co_await sleep_until(comm.loop(), comm.loop().now() + 1ms);  // exchanges go on meanwhile
      }
      Task<bool> taken = step.take([&] {
        ++updates[rank];
        const auto lr = static_cast<float>(script.settings.optimizer.lr);
        for (std::size_t i = 0; i < gradients.size(); ++i) weights[i] -= lr * gradients[i];
      });
      const bool last = co_await taken;
      EXPECT_EQ(last, pass + 1 == script.settings.backward_passes);
    }
  }
}

// The same by plain maths: the sum of each worker's gradients over the passes of a step.
std::vector<std::vector<double>> sums(const Script& script, int step) {
  std::vector<std::vector<double>> all;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(script.settings.workers); ++rank) {
    std::vector<double> gradients(script.elements());
    for (int pass = 0; pass < script.settings.backward_passes; ++pass) {
      for (std::size_t i = 0; i < script.parameters.size(); ++i) {
        if (script.has_gradient(rank, step, pass, i)) {
          script.add_gradient(rank, step, pass, i, gradients);
        }
      }
    }
    all.push_back(gradients);
  }
  return all;
}

class StepOfMany : public testing::TestWithParam<int> {
 protected:
  Script script_for(const std::string& strategy, std::size_t full, int passes) const {
    Script script;
    script.settings = settings_for(strategy, GetParam());
    script.settings.optimizer.lr = 0.25;
    script.settings.optimizer.momentum = 0;
    script.settings.backward_passes = passes;
    script.parameters = parameters_of({7, 1, 0, 13, 5, 2});
    script.full = full;
    return script;
  }
  // All begin with ones.
  Vectors run(const Script& script) {
    check_settings(script.settings);
    const auto workers = static_cast<std::size_t>(script.settings.workers);
    Vectors weights(workers, Floats(script.elements(), 1.0f));
    updates_.assign(workers, 0);
    Cluster cluster(script.settings.workers, {{1e6, 100us}, {}});
    cluster.run([&](Comm& comm) {
      return follow(script, comm, weights[static_cast<std::size_t>(comm.rank())], updates_);
    });
    return weights;
  }

  std::vector<int> updates_;
};

constexpr std::size_t kFull[] = {0, 1, 6, 1000};

TEST_P(StepOfMany, AveragesTheSumsOfAllPassesWhateverTheBuckets) {
  for (std::size_t full : kFull) {
    for (int passes : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << "full at " << full << ", passes " << passes);
      const Script script = script_for("allreduce", full, passes);
      const Vectors weights = run(script);
      std::vector<double> expected(script.elements(), 1.0);
      for (int step = 0; step < script.steps; ++step) {
        for (const std::vector<double>& gradients : sums(script, step)) {
          for (std::size_t i = 0; i < expected.size(); ++i) {
            expected[i] -= 0.25 * gradients[i] / GetParam();
          }
        }
      }
      for (const Floats& own : weights) {
        EXPECT_EQ(own, weights[0]);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_NEAR(static_cast<double>(own[i]), expected[i], 1e-5) << i;
        }
      }
      EXPECT_EQ(updates_, std::vector<int>(updates_.size(), script.steps));
    }
  }
}

TEST_P(StepOfMany, UpdatesBeforeItMixes) {
  for (int passes : {1, 2}) {
    const Script script = script_for("pairwise", 6, passes);
    const Vectors weights = run(script);
    Vectors expected(weights.size(), Floats(script.elements(), 1.0f));
    for (int step = 0; step < script.steps; ++step) {
      const auto gradients = sums(script, step);
      for (std::size_t rank = 0; rank < expected.size(); ++rank) {
        for (std::size_t i = 0; i < script.elements(); ++i) {
          expected[rank][i] -= static_cast<float>(0.25 * gradients[rank][i]);
        }
      }
      if (GetParam() > 1) expected = window_means(expected, 1);
    }
    EXPECT_LT(difference(weights, expected), 1e-5) << passes;
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, StepOfMany, testing::ValuesIn(kWorkerCounts),
                         testing::PrintToStringParamName());

// Writes down what it is called for. Exchanges take as long as they are told to, or fail.
class Diary : public Strategy {
 public:
  explicit Diary(Group group) : Strategy(group) {}

  Task<> after_backward(Bucket bucket) override {
    entries.push_back("begin " + std::to_string(bucket.index));
    co_await sleep_until(group_.loop(), group_.loop().now() + 1s * (2 - bucket.index));
    if (bucket.index == fails) throw Error("it failed");
    entries.push_back("end " + std::to_string(bucket.index));
  }
  Task<> after_update(Replica) override {
    entries.push_back("mix");
    co_return;
  }
  bool updates_weights() const override { return updates; }
  bool rests() const override { return resting; }

  std::vector<std::string> entries;
  bool updates = false, resting = false;
  int fails = -1;
};

// Three parameters in two buckets: the last one, and the first two.
struct OneWorker {
  Cluster cluster{1};
  Diary diary{cluster.comm(0)};
  Floats weights = Floats(6), gradients = Floats(5);
  std::vector<Range> parameters = parameters_of({1, 1, 3});
  Step step{diary, {weights, gradients}, make_buckets({weights, gradients}, parameters, 2)};

  bool take(Step& which) {
    return cluster.loop().run(which.take([this] { diary.entries.push_back("update"); }));
  }
  using Entries = std::vector<std::string>;
};

TEST(Step, BeginsABucketWithItsLastGradient) {
  OneWorker worker;
  worker.step.gradient_ready(1, "b");
  EXPECT_EQ(worker.diary.entries, OneWorker::Entries());
  worker.step.gradient_ready(2, "c");
  EXPECT_EQ(worker.diary.entries, OneWorker::Entries{"begin 0"});
  worker.step.gradient_ready(0, "a");
  EXPECT_EQ(worker.diary.entries, (OneWorker::Entries{"begin 0", "begin 1"}));
  EXPECT_TRUE(worker.take(worker.step));
  EXPECT_EQ(worker.diary.entries,
            (OneWorker::Entries{"begin 0", "begin 1", "end 1", "end 0", "update", "mix"}));
  worker.diary.entries.clear();
  worker.step.gradient_ready(0, "a");
  EXPECT_EQ(worker.diary.entries, OneWorker::Entries()) << "a new step counts anew";
}

TEST(Step, BeginsTheRestWhenTheBackwardPassIsOver) {
  OneWorker worker;
  worker.step.gradient_ready(0, "a");
  worker.take(worker.step);
  EXPECT_EQ(worker.diary.entries,
            (OneWorker::Entries{"begin 0", "begin 1", "end 1", "end 0", "update", "mix"}));
}

TEST(Step, DoesNotUpdateWhatTheStrategyUpdatesOrRests) {
  for (const bool rests : {false, true}) {
    OneWorker worker;
    (rests ? worker.diary.resting : worker.diary.updates) = true;
    worker.take(worker.step);
    EXPECT_EQ(worker.diary.entries.back(), "mix");
    EXPECT_EQ(std::ranges::count(worker.diary.entries, "update"), 0);
  }
}

TEST(Step, ClearsTheGradientsAfterTheLastPassOnly) {
  OneWorker worker;
  Step step(worker.diary, {worker.weights, worker.gradients},
            make_buckets({worker.weights, worker.gradients}, worker.parameters, 2), 2);
  worker.gradients.assign(5, 1.0f);
  step.gradient_ready(2, "c");
  EXPECT_FALSE(worker.take(step));
  EXPECT_EQ(worker.diary.entries, OneWorker::Entries());
  EXPECT_EQ(worker.gradients, Floats(5, 1.0f));
  step.gradient_ready(2, "c");
  EXPECT_EQ(worker.diary.entries, OneWorker::Entries{"begin 0"});
  EXPECT_TRUE(worker.take(step));
  EXPECT_EQ(worker.gradients, Floats(5, 0.0f));
}

TEST(Step, RefusesASecondBackwardOnlyIfItIsTooLate) {
  OneWorker worker;
  worker.step.gradient_ready(1, "b");
  worker.step.gradient_ready(1, "b");  // its bucket has not begun
  EXPECT_EQ(worker.diary.entries, OneWorker::Entries());
  worker.step.gradient_ready(2, "c");
  EXPECT_EQ(error_of([&] { worker.step.gradient_ready(2, "c"); }),
            "a second backward() in a step changed the gradient of c, which is on its way to the "
            "other workers; add the losses up for one backward(), or call step() after each and "
            "set --backward-passes");
}

TEST(Step, FailsWithTheFirstExchangeThatDoes) {
  OneWorker worker;
  worker.diary.fails = 1;
  EXPECT_EQ(error_of([&] { worker.take(worker.step); }), "it failed");
  EXPECT_EQ(worker.cluster.loop().now(), Time(1s)) << "it waited for the others";
}

TEST(Step, LetsItsDriverCollectGradientsAndWait) {
  OneWorker worker;
  std::vector<std::string>& entries = worker.diary.entries;
  Step::Driver driver;
  driver.collect = [&](Bucket& bucket) {
    entries.push_back("collect " + std::to_string(bucket.parameters.begin) + " to " +
                      std::to_string(bucket.parameters.end));
  };
  driver.wait = [&](const char* what, Task<> task) {
    entries.push_back(what);
    return task;
  };
  Step step(worker.diary, {worker.weights, worker.gradients},
            make_buckets({worker.weights, worker.gradients}, worker.parameters, 2), 1, driver);
  worker.take(step);
  EXPECT_EQ(entries, (OneWorker::Entries{"collect 2 to 3", "begin 0", "collect 0 to 2", "begin 1",
                                         "the exchange of gradients", "end 1", "end 0", "update",
                                         "the exchange of weights", "mix"}));
}

TEST(Step, HoldsAllBucketsBackWhereTheWholeGradientIsLookedAtFirst) {
  OneWorker worker;
  Step::Driver driver;
  driver.before_exchange = [&] { worker.diary.entries.push_back("look"); };
  Step step(worker.diary, {worker.weights, worker.gradients},
            make_buckets({worker.weights, worker.gradients}, worker.parameters, 2), 1, driver);
  for (std::size_t i = 0; i < 3; ++i) step.gradient_ready(i, "it");
  EXPECT_EQ(worker.diary.entries, OneWorker::Entries());
  worker.take(step);
  EXPECT_EQ(worker.diary.entries,
            (OneWorker::Entries{"look", "begin 0", "begin 1", "end 1", "end 0", "update", "mix"}));
}

TEST(Step, AllocatesNothingOnceItRuns) {
  OneWorker worker;
  Strategy strategy(worker.cluster.comm(0));
  const Replica replica{worker.weights, worker.gradients};
  Step step(strategy, replica, make_buckets(replica, worker.parameters, 2), 2);
  int updates = 0;
  const auto pass = [&] {
    for (std::size_t i : {2, 1, 0}) step.gradient_ready(i, "it");
    worker.cluster.loop().run(step.take([&] { ++updates; }));
  };
  for (int i = 0; i < 4; ++i) pass();
  const std::size_t before = allocations;
  for (int i = 0; i < 10; ++i) pass();
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(updates, 7);
}

TEST(Buckets, HoldAllParametersFromTheLastToTheFirst) {
  Floats weights(31), gradients(28);
  const std::vector<Range> parameters = parameters_of({7, 1, 0, 13, 5, 2});
  for (std::size_t full : kFull) {
    std::size_t parameter = parameters.size(), element = gradients.size();
    int index = 0;
    for (const Bucket& bucket : make_buckets({weights, gradients}, parameters, full)) {
      EXPECT_EQ(bucket.index, index++);
      EXPECT_EQ(bucket.parameters.end, parameter);
      EXPECT_EQ(bucket.range.end, element);
      parameter = bucket.parameters.begin;
      element = bucket.range.begin;
      EXPECT_EQ(bucket.range.begin, parameters[parameter].begin);
      EXPECT_EQ(bucket.gradients.data(), gradients.data() + element);
      EXPECT_EQ(bucket.weights.data(), weights.data() + element);
      EXPECT_EQ(bucket.weights.size(), bucket.range.size());
      EXPECT_LT(bucket.range.size() - parameters[parameter].size(), std::max<std::size_t>(1, full))
          << "it was full before";
      if (parameter > 0) {
        EXPECT_GE(bucket.range.size(), full);
      }
    }
    EXPECT_EQ(parameter, 0u);
  }
}

TEST(Buckets, AreAsTheSettingsHaveThem) {
  Settings settings;
  settings.bucket_kb = 2;
  EXPECT_EQ(full_bucket(settings), 500u);
  settings.server.factors = true;
  EXPECT_EQ(full_bucket(settings), 0u);
  settings.strategy = StrategyKind::ring_leader;
  EXPECT_GT(full_bucket(settings), std::size_t{1} << 40);
}

}  // namespace
}  // namespace starling
