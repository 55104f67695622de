// What becomes of the named systems when a worker ends before its time, by a crash or by an error of
// its own, and when the network falls apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "plan/simulated_training.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"
#include "strategy/systems.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

SimulatedTraining training_with(const std::string& system, int workers) {
  SimulatedTraining training;
  const System found = find_system(system);
  read_settings(found.toml, found.name, training.settings);
  training.settings.workers = workers;
  training.network.standard = {1e8, 100us};
  training.compute = 10ms;
  training.jitter = 0.3;
  training.noise = 0.1;
  training.elements = 30;
  training.batches = 20 * static_cast<std::uint64_t>(workers);
  training.batches_per_epoch = training.batches;
  return training;
}

bool has_master(const Settings& settings) {
  return settings.strategy == StrategyKind::mix &&
         settings.mix.graph.kind == GraphSettings::Kind::star;
}

std::string what(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  }
}

int named_in(const std::exception_ptr& error) {
  if (!error) return -1;
  try {
    std::rethrow_exception(error);
  } catch (const PeerLost& lost) {
    return lost.rank();
  } catch (...) {
    return -2;
  }
}

// But those whose workers have no whole model: here each of them has.
std::vector<std::string> all_systems() {
  std::vector<std::string> names;
  for (const System& system : named_systems()) {
    if (system.parallelism != "model") names.push_back(system.name);
  }
  return names;
}

class EarlyEnd : public testing::TestWithParam<std::string> {
 protected:
  // Ends one worker after another, at several times, by a crash or by an error.
  template <class Check>
  void for_each_end(Check check) {
    for (int workers : {2, 3, 4, 5}) {
      if (workers % std::max(1, training_with(GetParam(), workers).settings.server.group) != 0)
        continue;
      for (int gone = 0; gone < workers; ++gone) {
        for (const Time when : {Time(4ms), Time(57ms), Time(143ms)}) {
          for (const bool by_error : {false, true}) {
            SimulatedTraining training = training_with(GetParam(), workers);
            auto& ends = by_error ? training.faults.failures : training.faults.crashes;
            ends.push_back({gone, when});
            SCOPED_TRACE(testing::Message() << workers << " workers, " << training.faults);
            const SimulatedResult result = simulate(training);
            EXPECT_EQ(what(result.errors[static_cast<std::size_t>(gone)]),
                      by_error ? "rank " + std::to_string(gone) + " fails, as it was told to" : "");
            for (int rank = 0; rank < static_cast<int>(result.errors.size()); ++rank) {
              if (rank == gone) continue;
              SCOPED_TRACE(testing::Message() << "rank " << rank);
              check(training.settings, gone, result.errors[static_cast<std::size_t>(rank)]);
            }
          }
        }
      }
    }
  }
};

TEST_P(EarlyEnd, IsBorneByThoseWhoCanAndElseTheyNameTheOneWhoEnded) {
  for_each_end([](const Settings& settings, int gone, const std::exception_ptr& error) {
    if (!survives_losses(settings)) {
      EXPECT_EQ(named_in(error), gone) << what(error);
    } else {
      EXPECT_EQ(what(error), "");
    }
  });
}

const auto kByName = [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace(name, '-', '_');
  return name;
};
INSTANTIATE_TEST_SUITE_P(Of, EarlyEnd, testing::ValuesIn(all_systems()), kByName);

// A worker that nothing reaches and that nobody hears for a while: stopped, or behind a link that is
// down for a moment.
class Pause : public testing::TestWithParam<std::string> {};

TEST_P(Pause, OfAWorkerIsWaitedFor) {
  for (int workers : {2, 3, 4, 5}) {
    if (workers % std::max(1, training_with(GetParam(), workers).settings.server.group) != 0)
      continue;
    for (int rank = 0; rank < workers; ++rank) {
      for (const Time when : {Time(4ms), Time(57ms), Time(143ms)}) {
        SimulatedTraining training = training_with(GetParam(), workers);
        training.faults.partitions.push_back({{rank}, when, when + 9s});
        SCOPED_TRACE(testing::Message() << workers << " workers, " << training.faults);
        const SimulatedResult result = simulate(training);
        for (const std::exception_ptr& error : result.errors) EXPECT_EQ(what(error), "");
        EXPECT_GE(result.end, when + 9s) << "nobody noticed anything";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Pause, testing::ValuesIn(all_systems()), kByName);

// A split network

class Split : public testing::TestWithParam<std::string> {
 protected:
  // Cuts these workers off, soon found out or late. Says how many workers of each side ended well.
  void expect_one_side_at_most(int workers, const std::vector<int>& side) {
    for (const Time detection : {Time(30ms), Time(10s)}) {
      SimulatedTraining training = training_with(GetParam(), workers);
      training.faults.partitions.push_back({side, 65ms, 1h});
      training.faults.detection = detection;
      SCOPED_TRACE(testing::Message() << workers << " workers, " << training.faults);
      const SimulatedResult result = simulate(training);
      std::set<bool> well;  // the side that was cut off, the other one
      for (int rank = 0; rank < workers; ++rank) {
        const bool cut = std::ranges::find(side, rank) != side.end();
        if (!result.errors[static_cast<std::size_t>(rank)]) well.insert(cut);
      }
      EXPECT_LE(well.size(), 1u) << "both sides went on";
      // A side that needs a master or servers which are on the other one ends, however large it is.
      if (training.settings.strategy == StrategyKind::server || has_master(training.settings))
        continue;
      EXPECT_EQ(well.size(), 1u) << "nobody went on";
    }
  }
};

TEST_P(Split, NeverHasTwoSidesThatEndWell) {
  for (int workers : {3, 4, 5}) {
    for (int rank = 0; rank < workers; ++rank) expect_one_side_at_most(workers, {rank});
  }
  for (int workers : {4, 5}) {
    for (int a = 0; a < workers; ++a) {
      for (int b = a + 1; b < workers; ++b) expect_one_side_at_most(workers, {a, b});
    }
  }
}

// Servers have no vote. The workers that still have all of them and a majority go on, and nobody else.
void expect_only_those_with_servers_and_majority(const std::string& system, int workers,
                                                 const std::vector<int>& side) {
  SimulatedTraining training = training_with(system, workers);
  const int ranks = workers + server_processes(training.settings);
  training.faults.partitions.push_back({side, 65ms, 1h});
  SCOPED_TRACE(testing::Message() << workers << " workers, " << training.faults);
  const auto is_cut = [&](int rank) { return std::ranges::find(side, rank) != side.end(); };
  std::vector<Presence> heard[2];  // by the workers of either side
  int servers[2] = {0, 0};
  for (int rank = 0; rank < ranks; ++rank) {
    for (const bool cut : {false, true}) {
      if (rank < workers) {
        heard[cut].push_back(is_cut(rank) == cut ? Presence::here : Presence::silent);
      } else if (is_cut(rank) == cut) {
        ++servers[cut];
      }
    }
  }
  const SimulatedResult result = simulate(training);
  for (int rank = 0; rank < workers; ++rank) {
    const bool cut = is_cut(rank);
    const bool goes_on = servers[cut] == ranks - workers && may_go_on(heard[cut]);
    EXPECT_EQ(what(result.errors[static_cast<std::size_t>(rank)]).empty(), goes_on)
        << "rank " << rank << ": " << what(result.errors[static_cast<std::size_t>(rank)]);
  }
}

class ServerSplit : public testing::TestWithParam<std::string> {};

TEST_P(ServerSplit, LeavesThoseWithAllServersAndAMajority) {
  for (int workers : {3, 4, 5}) {
    const Settings settings = training_with(GetParam(), workers).settings;
    const int servers = server_processes(settings);
    ASSERT_TRUE(servers > 0 && survives_losses(settings));
    std::vector<int> all_servers;
    for (int i = 0; i < servers; ++i) all_servers.push_back(workers + i);
    expect_only_those_with_servers_and_majority(GetParam(), workers, all_servers);
    expect_only_those_with_servers_and_majority(GetParam(), workers, {workers});
    for (int rank = 0; rank < workers; ++rank) {
      std::vector<int> side = {rank, workers};
      expect_only_those_with_servers_and_majority(GetParam(), workers, side);
      side = all_servers;
      side.push_back(rank);
      expect_only_those_with_servers_and_majority(GetParam(), workers, side);
      side.push_back((rank + 1) % workers);
      expect_only_those_with_servers_and_majority(GetParam(), workers, side);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ServerSplit,
                         testing::Values("project-adam", "distbelief", "tensorflow-backup"),
                         kByName);

INSTANTIATE_TEST_SUITE_P(Of, Split,
                         testing::Values("gosgd", "ad-psgd", "easgd", "deeplearning4j",
                                         "huawei-ring", "project-adam", "distbelief",
                                         "tensorflow-backup"),
                         kByName);

}  // namespace
}  // namespace starling
