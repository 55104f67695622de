// Mixing around a training: when it happens, what goes on meanwhile, who trains, who waits for
// whom. What the rules do is in tests/mixing.
#include <algorithm>

#include "strategy/mix_plan.h"
#include "tests/mixing/mixers.h"

namespace starling {
namespace {

Settings mix_settings(int workers, const std::string& graph, const std::string& mixing = "mean",
                      const std::string& schedule = "sync") {
  Settings settings = settings_for("mix", workers);
  settings.mix.graph.kind = named<GraphSettings::Kind>(graph);
  settings.mix.rule = named<MixingSettings::Rule>(mixing);
  settings.schedule.kind = named<ScheduleSettings::Kind>(schedule);
  settings.optimizer.lr = 0.05;
  return settings;
}

// Without the first weights that a start would agree on.
Task<> mix_once(const Settings& settings, Comm& comm, Floats& weights, std::size_t parameters) {
  Floats gradients(parameters);
  const auto strategy = make_strategy(settings, comm);
  co_await strategy->after_update({weights, gradients});
}

// Overlap

TEST(Overlap, AddsWhatWasChangedMeanwhileToWhatTheRoundYields) {
  for (const char* graph : {"closed-ring", "window", "exponential", "mesh", "star", "tree"}) {
    for (int size : kWorkerCounts) {
      for (int period : {1, 3}) {
        Settings settings = mix_settings(size, graph);
        settings.schedule.overlap = true;
        settings.schedule.period = period;
        Workers workers(settings, 23, 20);
        workers.start();
        workers.weights = random_vectors(size, 23, 7);
        const Graph made = make_graph(graph_settings(settings));
        Vectors expected = workers.weights, before;
        std::uint64_t round = 0;
        const auto end_round = [&] {  // W w_t + (w - w_t)
          if (before.empty()) return;
          Matrix matrix = mixing_weights(made, round++);
          const std::size_t n = index(size);
          if (graph == std::string("star")) {
            matrix = Matrix(n, std::vector<double>(n, 1.0 / size));
          }
          Vectors after = expected;
          for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t e = 0; e < 23; ++e) {
              double mixed = 0;
              for (std::size_t k = 0; k < n; ++k) {
                mixed += matrix[i][k] * static_cast<double>(before[k][e]);
              }
              after[i][e] =
                  static_cast<float>(mixed + static_cast<double>(expected[i][e] - before[i][e]));
            }
          }
          expected = after;
        };
        for (int step = 1; step <= 13; ++step) {
          const Vectors change = random_vectors(size, 23, 100 + static_cast<std::uint64_t>(step));
          for (std::size_t rank = 0; rank < change.size(); ++rank) {
            for (std::size_t i = 0; i < 23; ++i) {
              workers.weights[rank][i] += change[rank][i];
              expected[rank][i] += change[rank][i];
            }
          }
          workers.after_update();
          if (step % period == 0) {
            end_round();
            before = expected;
          }
          ASSERT_LT(difference(workers.weights, expected), 5e-6)
              << graph << " n=" << size << " period=" << period << " step=" << step;
        }
        end_round();
        workers.finish();
        for (const Floats& weights : workers.weights) {
          EXPECT_LT(difference(weights, mean_of(expected)), 5e-6) << graph << " n=" << size;
        }
      }
    }
  }
}

TEST(Overlap, HidesTheNetworkBehindComputing) {
  const auto time_of = [](bool overlap) {
    Training training{mix_settings(4, "closed-ring")};
    training.settings.schedule.overlap = overlap;
    training.jitter = 0;
    training.elements = 10'000;  // 40 KB each way: 8 ms for two of them
    training.network.standard = {1e7, 100us};
    training.steps = 50;
    Time last{0};
    const Trained trained = train(training);
    expect_all_well(trained.errors);
    for (const auto& sent : trained.sent) last = std::max(last, sent.back());
    return last;
  };
  EXPECT_LT(time_of(true), 50 * 11ms);
  EXPECT_GT(time_of(false), 50 * 17ms);
}

// The period is agreed on while a round is under way: one must not take the other's messages.
TEST(Overlap, GoesTogetherWithAPeriodThatAdapts) {
  for (const char* graph : {"star", "mesh", "window", "closed-ring"}) {
    for (int size : {2, 4, 5}) {
      Training training{mix_settings(size, graph)};
      training.settings.schedule.overlap = true;
      training.settings.schedule.compute_ratio = 2;
      if (graph == std::string("window"))
        training.settings.mix.graph.passes = std::min(2, size - 1);
      training.network.standard = {1e7, 300us};
      training.elements = 1000;
      const Trained trained = train(training);
      expect_all_well(trained.errors);
      EXPECT_LT(difference(trained.weights[0], mean_of(training.centres())), 1e-3)
          << graph << " " << size;
    }
  }
}

// FedAvg

TEST(Sampling, OnlyThoseWhoAreDrawnTrainAndAllHaveTheSameAfterwards) {
  for (double share : {0.25, 0.5, 1.0}) {
    Training training{mix_settings(8, "star", "sampled")};
    training.settings.mix.client_share = share;
    training.settings.schedule.period = 5;
    training.steps = 200;
    const Trained result = train(training);
    expect_all_well(result.errors);
    std::uint64_t steps = 0;
    for (std::uint64_t each : result.steps) {
      EXPECT_EQ(each % 5, 0u) << "whole rounds";
      EXPECT_GT(each, 0u);
      steps += each;
    }
    EXPECT_EQ(steps, static_cast<std::uint64_t>(8 * share) * 200);
    for (const Floats& weights : result.before_finish) {
      EXPECT_EQ(weights, result.before_finish[0]) << "the last step ended a round";
    }
  }
}

TEST(Sampling, WeighsByTheSamplesEachHas) {
  Training training{mix_settings(4, "star", "sampled")};
  training.settings.schedule.period = 5;
  training.samples = {100, 300, 50, 600};
  const Trained trained = train(training);
  expect_all_well(trained.errors);
  const std::vector<double> goal = mean_of(training.centres(), {100, 300, 50, 600});
  EXPECT_LT(difference(trained.weights[0], goal), 1e-4);
  EXPECT_GT(difference(trained.weights[0], mean_of(training.centres())), 0.05);
}

// When

TEST(Probability, AllMixInTheSameStepsWhereTheyWait) {
  for (double probability : {0.1, 0.5}) {
    Training training{mix_settings(4, "closed-ring")};
    training.settings.schedule.probability = probability;
    training.jitter = 0;
    training.steps = 1000;
    const Trained trained = train(training);
    expect_all_well(trained.errors);
    const double slack = 4 * std::sqrt(probability * (1 - probability) / 1000);
    for (const auto& sent : trained.sent) {
      EXPECT_EQ(sent.size(), trained.sent[0].size());
      EXPECT_NEAR(static_cast<double>(sent.size()) / 1000, probability, slack);
    }
  }
}

TEST(Probability, EachThrowsItsOwnCoinWhereNobodyWaits) {
  Training training{mix_settings(4, "mesh", "sum-weight", "async")};
  training.settings.schedule.probability = 0.2;
  training.steps = 1000;
  const Trained trained = train(training);
  expect_all_well(trained.errors);
  EXPECT_NEAR(static_cast<double>(trained.mixing.rounds) / 4000, 0.2, 0.03);
}

// The rounds of a training, by the steps after which each worker sent: how far apart they lie.
std::vector<std::vector<std::uint64_t>> periods_of(const Training& training) {
  std::vector<std::vector<std::uint64_t>> steps(index(training.settings.workers));
  const Trained trained = train(training);
  expect_all_well(trained.errors);
  // A round waits for all, so whoever sent did so at the end of its step.
  for (std::size_t rank = 0; rank < steps.size(); ++rank) {
    const auto& sent = trained.sent[rank];
    for (std::size_t i = 1; i < sent.size(); ++i) {
      steps[rank].push_back(static_cast<std::uint64_t>((sent[i] - sent[i - 1]) / training.compute));
    }
  }
  return steps;
}

TEST(ComputeRatio, FindsThePeriodForTheNetworkThereIs) {
  double last = 0;
  for (double bytes_per_second : {1e8, 1e7, 2e6}) {
    Training training{mix_settings(4, "mesh")};
    training.settings.schedule.compute_ratio = 5;
    training.jitter = 0;
    training.elements = 10'000;
    training.steps = 2000;
    training.network.standard = {bytes_per_second, 0us};
    // A ring all-reduce moves 2 * 3/4 of 40 KB; then the period is agreed on.
    const double mixing = 1.5 * 40'000 / bytes_per_second;
    const double wanted = std::max(1.0, 5 * mixing / 0.010);
    const auto periods = periods_of(training);
    for (const auto& each : periods) EXPECT_EQ(each, periods[0]) << "not the same on all workers";
    const auto settled = static_cast<double>(periods[0].back());
    // The time from one round's end to the next holds the mixing as well.
    EXPECT_GE(settled, 0.95 * wanted);
    EXPECT_LE(settled, 1.05 * wanted + 2 + std::ceil(mixing / 0.010));
    EXPECT_GT(settled, last) << "a slower network, a longer period";
    last = settled;
  }
}

// Bounded

struct Ahead {
  // How far each worker is, and the most that one was ahead of somebody it hears.
  std::vector<std::uint64_t> steps;
  std::uint64_t furthest = 0;
};

Ahead run_bounded(Training& training) {
  Ahead ahead{std::vector<std::uint64_t>(index(training.settings.workers)), 0};
  const Graph graph = make_graph(graph_settings(training.settings));
  training.on_step = [&](std::size_t rank, std::uint64_t step) {
    ahead.steps[rank] = step;
    for (int heard : graph.hears(static_cast<int>(rank))) {
      const std::uint64_t theirs = ahead.steps[index(heard)];
      ahead.furthest = std::max(ahead.furthest, step - std::min(step, theirs));
    }
  };
  expect_all_well(train(training).errors);
  return ahead;
}

TEST(Bounded, NobodyRunsFurtherAheadOfWhomItHearsThanTheBound) {
  for (const char* graph : {"mesh", "closed-ring", "tree", "window"}) {
    for (int bound : {1, 2, 5, 16}) {
      for (const char* rule : {"mean", "elastic"}) {
        Training training{mix_settings(5, graph, rule, "bounded")};
        training.settings.schedule.ahead_bound = bound;
        training.settings.slow = "3:6";
        training.steps = 200;
        const Ahead ahead = run_bounded(training);
        // It may do one more step, at the end of which it waits.
        EXPECT_LE(ahead.furthest, static_cast<std::uint64_t>(bound) + 1)
            << graph << " " << rule << " bound " << bound;
        EXPECT_GE(ahead.furthest, static_cast<std::uint64_t>(bound) / 2);
      }
    }
  }
  Training training{mix_settings(5, "mesh", "mean", "async")};
  training.settings.slow = "3:6";
  training.steps = 200;
  EXPECT_GT(run_bounded(training).furthest, 100u) << "the bound makes the difference";
}

TEST(Bounded, NobodyWaitsForOneWhoIsLost) {
  for (int lost : {0, 3}) {
    for (const char* graph : {"mesh", "closed-ring"}) {
      Training training{mix_settings(5, graph, "sum-weight", "bounded")};
      training.settings.schedule.ahead_bound = 2;
      training.settings.slow = "3:6";
      training.steps = 100;
      training.crashes.push_back({lost, 333ms});
      const Trained trained = train(training);
      for (std::size_t rank = 0; rank < 5; ++rank) {
        if (static_cast<int>(rank) == lost) continue;
        EXPECT_EQ(what(trained.errors[rank]), "");
        EXPECT_EQ(trained.weights[rank], trained.weights[lost == 0 ? 1 : 0]);
      }
    }
  }
}

// A user's own loop need not say how many batches there are, and workers may have different numbers
// of them.
TEST(Bounded, NobodyWaitsForOneWhoHasFinished) {
  for (const char* rule : {"mean", "elastic", "sum-weight", "updates"}) {
    Training training{mix_settings(3, "mesh", rule, "bounded")};
    training.settings.schedule.ahead_bound = 4;
    training.told_batches = false;
    training.steps = 60;
    training.ends_after[1] = 20;
    const Trained trained = train(training);
    expect_all_well(trained.errors);
    EXPECT_EQ(trained.steps, (std::vector<std::uint64_t>{60, 20, 60}));
    for (const Floats& weights : trained.weights) EXPECT_EQ(weights, trained.weights[0]);
  }
}

// Together

TEST(Async, WhoeverHasDoneItsShareHelpsWithWhatIsLeft) {
  Training training{mix_settings(4, "mesh", "sum-weight", "async")};
  training.settings.slow = "2:5";
  training.steps = 200;
  const Trained trained = train(training);
  expect_all_well(trained.errors);
  std::uint64_t all = 0;
  for (std::uint64_t steps : trained.steps) all += steps;
  EXPECT_GE(all, 800u);
  EXPECT_LE(all, 820u);
  EXPECT_LT(trained.steps[2], 70u);
  EXPECT_GT(trained.steps[0], 230u);
}

TEST(Async, AWorkerByItselfTrainsAndSendsNothing) {
  for (const char* rule : {"mean", "elastic", "elastic-push", "sum-weight", "updates"}) {
    for (const char* schedule : {"async", "bounded"}) {
      Training training{mix_settings(1, "mesh", rule, schedule)};
      const Trained trained = train(training);
      expect_all_well(trained.errors);
      EXPECT_TRUE(trained.sent[0].empty());
      EXPECT_LT(difference(trained.weights[0], training.centres()[0]), 1e-5) << rule;
    }
  }
}

TEST(Mix, GivesTheSameBitsInEveryRun) {
  for (const char* rule : {"mean", "elastic", "elastic-push", "sum-weight", "updates"}) {
    Training training{mix_settings(5, "mesh", rule, "async")};
    training.steps = 50;
    EXPECT_EQ(train(training).weights, train(training).weights) << rule;
  }
}

// A round that fails

// All workers but one lose that one in the middle of their first round.
std::vector<Floats> cut_short(const Settings& settings, const Vectors& before,
                              std::size_t parameters, std::vector<std::exception_ptr>& errors) {
  Network network;
  network.standard.bytes_per_second = 1e6;
  Vectors weights = before;
  Faults faults;
  faults.crashes.push_back({1, std::chrono::milliseconds(60)});
  Cluster cluster(settings.workers, network, faults);
  const auto work = [&](Comm& comm) -> Task<> {
    return mix_once(settings, comm, weights[index(comm.rank())], parameters);
  };
  errors = cluster.try_run(work);
  return weights;
}

TEST(Mix, LeavesTheModelWholeWhenARoundIsCutShort) {
  using enum GraphSettings::Passes;
  for (const auto& [graph, passes_mean] : {std::pair{"mesh", window},
                                           {"window", window},
                                           {"window", repeat},
                                           {"window", group},
                                           {"star", window},
                                           {"closed-ring", window}}) {
    for (const std::size_t parameters :
         {20'000, 25'000}) {  // with buffers behind them, and without
      SCOPED_TRACE(testing::Message() << graph << " " << name_of(passes_mean) << " " << parameters);
      Settings settings = mix_settings(4, graph);
      if (settings.mix.graph.kind == GraphSettings::Kind::window) settings.mix.graph.passes = 2;
      settings.mix.graph.passes_mean = passes_mean;
      const Vectors before = random_vectors(4, 25'000, 3);
      std::vector<std::exception_ptr> errors;
      const Vectors after = cut_short(settings, before, parameters, errors);
      for (const std::size_t rank : {0, 2, 3}) {
        const bool alone = passes_mean == group && rank == 3;  // in the first round
        ASSERT_TRUE(errors[rank] || alone) << rank;
        EXPECT_EQ(after[rank], before[rank]) << rank;
      }
    }
  }
}

}  // namespace
}  // namespace starling
