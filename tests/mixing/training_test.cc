// The named decentral systems as a whole: do they find what is best for all, what does a slow or a
// lost worker do to them?
#include "plan/simulated_training.h"

#include <algorithm>

#include "strategy/mix_plan.h"
#include "strategy/systems.h"
#include "tests/mixing/mixers.h"

namespace starling {
namespace {

constexpr double kRate = 0.05;

// With plain SGD, so that the maths is simple.
Settings system_settings(const std::string& name, int workers) {
  Settings settings;
  read_settings(find_system(name).toml, name, settings);
  settings.workers = workers;
  settings.optimizer.kind = OptimizerSettings::Kind::sgd;
  settings.optimizer.momentum = 0;
  // Everybody takes everybody's steps there.
  settings.optimizer.lr =
      settings.mix.rule == MixingSettings::Rule::updates ? kRate / workers : kRate;
  return settings;
}

std::vector<std::string> decentral_systems() {
  std::vector<std::string> names;
  for (const System& system : named_systems()) {
    Settings settings;
    read_settings(system.toml, system.name, settings);
    if (is_mix(settings)) names.push_back(system.name);
  }
  return names;
}

double spread_of_centres(const Training& training) { return spread(training.centres()); }

// How far from what is best for all, and from each other, as a share of how far apart the workers'
// own optima are.
struct Bound {
  std::string system;
  double goal;    // of the final model
  double spread;  // of the workers, before they agree on it; 1 without any mixing
};

class DecentralSystem : public testing::TestWithParam<Bound> {};

TEST_P(DecentralSystem, FindsWhatIsBestForAllThoughEachWantsSomethingElse) {
  for (int workers : {2, 4, 5, 8}) {
    for (int seed : {1, 2}) {
      Training training{system_settings(GetParam().system, workers)};
      training.settings.seed = seed;
      if (training.settings.mix.codec.kind != CodecSettings::Kind::raw) training.elements = 500;
      const Trained trained = train(training);
      expect_all_well(trained.errors);
      const double scale = spread_of_centres(training);
      const std::vector<double> goal = mean_of(training.centres());
      double off = 0;
      for (std::size_t i = 0; i < goal.size(); ++i) {
        off += std::pow(static_cast<double>(trained.weights[0][i]) - goal[i], 2);
      }
      off = std::sqrt(off / static_cast<double>(goal.size()));
      EXPECT_LT(off, GetParam().goal * scale) << "n=" << workers << " seed=" << seed;
      EXPECT_LT(spread(trained.before_finish), GetParam().spread * scale)
          << "n=" << workers << " seed=" << seed;
      for (const Floats& weights : trained.weights) EXPECT_EQ(weights, trained.weights[0]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DecentralSystem,
    // Means and push-sum keep the mean, so they find the goal; so does the penalty, whose workers
    // stay 1 / (1 + penalty) as far apart as they want to be. FedAvg jumps about by whom it draws.
    // DiLoCo's outer momentum of 0.9 still swings a little around the goal, and flock by the one step
    // that its codes can say.
    // A tree's children pull harder than parents do; the others answer to whoever came last. Of two
    // workers of ad-psgd, one may have moved at the end where the other's answer is under way.
    testing::Values(Bound{"pairwise", 0.001, 0.1}, Bound{"exponential", 0.001, 0.1},
                    Bound{"sgp", 0.001, 0.1}, Bound{"d-psgd", 0.001, 0.2},
                    Bound{"local-sgd", 0.001, 0.001}, Bound{"sparknet", 0.001, 0.15},
                    Bound{"diloco", 0.005, 0.001}, Bound{"flock", 0.05, 0.001},
                    Bound{"fedavg", 0.25, 0.001}, Bound{"easgd", 0.15, 0.6},
                    Bound{"eamsgd", 0.15, 0.6}, Bound{"tree-easgd", 0.4, 0.6},
                    Bound{"gosgd", 0.35, 0.55}, Bound{"ad-psgd", 0.05, 0.2},
                    Bound{"mpca-sgd", 0.001, 0.8}, Bound{"deeplearning4j", 0.3, 0.6}),
    [](const auto& test) { return message_of(test.param.system); });

TEST(DecentralSystems, AreAllTestedAbove) { EXPECT_EQ(decentral_systems().size(), 16u); }

// SGP where some are heard more often than others, as the paper has it: the gradient is taken at
// z = x / number and applied to x.
TEST(PushSumTraining, IsThePapersOnAnyGraph) {
  for (int workers : {1, 2, 4, 5, 8}) {
    for (int period : {1, 3}) {
      for (bool overlap : {false, true}) {
        Training training{system_settings("sgp", workers)};
        training.settings.mix.graph.kind = GraphSettings::Kind::file;
        training.settings.mix.graph.file = graph_file(workers, true);
        training.settings.schedule.period = period;
        training.settings.schedule.overlap = overlap;
        training.settings.seed = workers;
        training.steps = 20;
        const Trained trained = train(training);
        expect_all_well(trained.errors);

        const auto n = index(workers);
        const Graph graph = make_graph(graph_settings(training.settings));
        const Vectors centres = training.centres();
        Matrix x(n, std::vector<double>(training.elements + 1, 2));  // and the number, behind
        for (auto& row : x) row.back() = 1;
        Matrix begun;  // a round that goes on while the next steps are computed
        const auto join = [&] {
          Matrix mixed(n, std::vector<double>(training.elements + 1));
          const Matrix weights = push_matrix(graph);
          for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t e = 0; e < mixed[i].size(); ++e) {
              for (std::size_t j = 0; j < n; ++j) mixed[i][e] += weights[i][j] * begun[j][e];
              mixed[i][e] += x[i][e] - begun[i][e];
            }
          }
          x = mixed;
          begun.clear();
        };
        for (std::uint64_t step = 1; step <= training.steps; ++step) {
          for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t e = 0; e < training.elements; ++e) {
              x[i][e] -= kRate * (x[i][e] / x[i].back() - static_cast<double>(centres[i][e]));
            }
          }
          if (step % static_cast<std::uint64_t>(period) != 0) continue;
          if (!begun.empty()) join();
          begun = x;
          if (!overlap) join();
        }
        std::vector<double> mean(training.elements);
        for (std::size_t i = 0; i < n; ++i) {
          std::vector<double> z(x[i].begin(), x[i].end() - 1);
          for (double& value : z) value /= x[i].back();
          EXPECT_LT(difference(trained.before_finish[i], z), 1e-5)
              << "n=" << workers << " period=" << period << " overlap=" << overlap;
        }
        if (!begun.empty()) join();
        for (std::size_t i = 0; i < n; ++i) {
          for (std::size_t e = 0; e < mean.size(); ++e) mean[e] += x[i][e] / double(workers);
        }
        EXPECT_LT(difference(trained.weights[0], mean), 1e-5) << "n=" << workers;
      }
    }
  }
}

// Faults

SimulatedTraining simulated(const std::string& system, int workers = 4) {
  SimulatedTraining training;
  training.settings = system_settings(system, workers);
  training.network.standard = {1e8, 100us};
  training.jitter = 0.3;
  training.noise = 0.1;
  training.elements = 200;
  training.batches = 100 * static_cast<std::uint64_t>(workers);
  return training;
}

double distance_to_target(const std::vector<float>& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += std::pow(static_cast<double>(weights[i] - simulated_target(i)), 2);
  }
  return std::sqrt(sum / static_cast<double>(weights.size()));
}

class Faults : public testing::TestWithParam<std::string> {
 protected:
  Faults() : settings(system_settings(GetParam(), 4)) {}
  bool waits() const { return settings.schedule.kind == ScheduleSettings::Kind::sync; }
  Settings settings;
};

TEST_P(Faults, ASlowWorkerSlowsOnlyThoseWhoWaitForIt) {
  SimulatedTraining training = simulated(GetParam());
  if (training.settings.schedule.kind == ScheduleSettings::Kind::bounded)
    training.batches = 200;  // within the bound
  const SimulatedResult alike = simulate(training);
  training.settings.slow = "3:5";
  const SimulatedResult slowed = simulate(training);
  expect_all_well(slowed.errors);
  const double kept = slowed.batches_per_second() / alike.batches_per_second();
  if (waits()) {
    // FedAvg does not always draw the slow one.
    EXPECT_LT(kept, settings.mix.client_share < 1 ? 0.5 : 0.35);
  } else {
    EXPECT_GE(kept, 0.7);
    EXPECT_GE(slowed.all_batches(), training.batches);
  }
  EXPECT_LT(distance_to_target(slowed.weights[0]), 0.2);
  for (const auto& weights : slowed.weights) EXPECT_EQ(weights, slowed.weights[0]);
}

TEST_P(Faults, ALostWorkerIsNoMatterForThoseWhoDoNotWaitForIt) {
  for (int lost : {1, 2, 3}) {
    for (Time crash : {203ms, 587ms, 801ms}) {
      SimulatedTraining training = simulated(GetParam());
      training.faults.crashes.push_back({lost, crash});
      const SimulatedResult result = simulate(training);
      for (std::size_t rank = 0; rank < 4; ++rank) {
        if (static_cast<int>(rank) == lost) continue;
        SCOPED_TRACE(testing::Message() << "rank " << lost << " lost, rank " << rank);
        if (waits()) {
          ASSERT_TRUE(result.errors[rank]);
          EXPECT_THROW(std::rethrow_exception(result.errors[rank]), PeerLost);
        } else {
          EXPECT_EQ(what(result.errors[rank]), "");
          EXPECT_EQ(result.weights[rank], result.weights[0]);
          EXPECT_LT(distance_to_target(result.weights[rank]), 0.1);
        }
      }
      if (!waits()) {
        EXPECT_GE(result.all_batches(), training.batches - 12);
      }
    }
  }
}

TEST_P(Faults, WithoutTheFirstWorkerAllGoOnAndAMasterHasADeputy) {
  for (Time crash : {203ms, 587ms, 801ms}) {
    SimulatedTraining training = simulated(GetParam());
    training.faults.crashes.push_back({0, crash});
    const SimulatedResult result = simulate(training);
    for (std::size_t rank = 1; rank < 4; ++rank) {
      if (waits()) {
        ASSERT_TRUE(result.errors[rank]);
        EXPECT_THROW(std::rethrow_exception(result.errors[rank]), PeerLost);
      } else {
        EXPECT_EQ(what(result.errors[rank]), "");
        EXPECT_EQ(result.weights[rank], result.weights[1]);
        EXPECT_LT(distance_to_target(result.weights[rank]), 0.1);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Faults, testing::ValuesIn(decentral_systems()),
                         [](const auto& test) { return message_of(test.param); });

// Two lost, one after the other, and a slow one: the rest still agree.
TEST(SeveralFaults, TwoLostAndASlowOneAreBorne) {
  for (const char* system : {"gosgd", "ad-psgd", "tree-easgd", "deeplearning4j", "easgd"}) {
    SimulatedTraining training = simulated(system, 6);
    training.settings.slow = "2:4";
    training.faults.crashes = {{1, 301ms}, {4, 555ms}};
    const SimulatedResult result = simulate(training);
    for (std::size_t rank : {0, 2, 3, 5}) {
      EXPECT_EQ(what(result.errors[rank]), "") << system;
      EXPECT_EQ(result.weights[rank], result.weights[0]) << system;
      EXPECT_LT(distance_to_target(result.weights[rank]), 0.1) << system;
    }
  }
}

}  // namespace
}  // namespace starling
