#include "strategy/grid.h"

#include <gtest/gtest.h>

#include "server/server.h"
#include "sim/cluster.h"
#include "strategy/server_plan.h"
#include "strategy/step.h"
#include "strategy/systems.h"
#include "tests/error_of.h"

namespace starling {
namespace {

Settings grid_of(int copies, int stages, int parts) {
  Settings settings;
  settings.parallel.pipeline = stages;
  settings.parallel.tensor = parts;
  settings.workers = copies * stages * parts;
  return settings;
}

std::vector<int> ranks_of(const Group& group) {
  std::vector<int> ranks;
  for (int place = 0; place < group.size(); ++place) ranks.push_back(group.in_comm(place));
  return ranks;
}

TEST(Grid, GivesEachWorkerAPlaceOfItsOwn) {
  for (int copies : {1, 2, 3}) {
    for (int stages : {1, 2, 4}) {
      for (int parts : {1, 3}) {
        const Settings settings = grid_of(copies, stages, parts);
        EXPECT_EQ(settings.copies(), copies);
        for (int worker = 0; worker < settings.workers; ++worker) {
          const Place place = place_of(settings, worker);
          EXPECT_EQ(worker_at(settings, place), worker);
          EXPECT_LT(place.copy, copies);
          EXPECT_LT(place.stage, stages);
          EXPECT_LT(place.part, parts);
        }
      }
    }
  }
}

TEST(Grid, GroupsAreItsAxes) {
  const Settings settings = grid_of(2, 3, 2);
  Cluster cluster(12);
  Comm& comm = cluster.comm(9);  // copy 1, stage 1, part 1
  EXPECT_EQ(place_of(settings, 9), (Place{1, 1, 1}));
  EXPECT_EQ(ranks_of(slice_workers(settings, comm, GroupNumber::training)),
            (std::vector<int>{3, 9}));
  EXPECT_EQ(ranks_of(copy_group(settings, comm)), (std::vector<int>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(ranks_of(stage_group(settings, comm)), (std::vector<int>{7, 9, 11}));
  EXPECT_EQ(ranks_of(part_group(settings, comm)), (std::vector<int>{8, 9}));
  EXPECT_EQ(stage_group(settings, comm).rank(), 1);
}

TEST(Grid, HasServersOfItsOwnForEachSlice) {
  Settings settings = grid_of(3, 2, 1);
  settings.strategy = StrategyKind::server;
  settings.server.servers = 2;
  EXPECT_EQ(server_processes(settings), 4);
  EXPECT_EQ(first_server(settings), 3);
  Cluster cluster(10);
  EXPECT_EQ(ranks_of(serving_group(settings, cluster.comm(4))), (std::vector<int>{0, 2, 4, 6, 7}));
  EXPECT_EQ(ranks_of(serving_group(settings, cluster.comm(9))), (std::vector<int>{1, 3, 5, 8, 9}));
}

TEST(Grid, IsNamedAsFarAsThereIsMoreThanOne) {
  EXPECT_EQ(place_name(grid_of(4, 1, 1), 2), "");
  EXPECT_EQ(place_name(grid_of(1, 4, 1), 2), "stage 2");
  EXPECT_EQ(place_name(grid_of(2, 2, 2), 5), "copy 1, stage 0, part 1");
}

TEST(Grid, IsOfWholeCopies) {
  Settings settings = grid_of(1, 2, 2);
  settings.workers = 6;
  EXPECT_EQ(error_of([&] { check_settings(settings); }),
            "6 workers do not make whole copies of a model on 2 x 2 of them; set workers to 4 or a "
            "multiple of it");
}

TEST(Grid, IsOfANetworkThatCanBeCutLikeThat) {
  const auto refusal = [](int pipeline, int tensor, const std::string& model,
                          const std::string& stages = "") {
    Settings settings = grid_of(1, pipeline, tensor);
    settings.train.model = model;
    settings.parallel.stages = stages;
    return error_of([&] { check_network(settings); });
  };
  EXPECT_EQ(refusal(4, 1, "cnn3"), "no error");
  EXPECT_EQ(refusal(5, 1, "cnn3"), "pipeline = 5, and the model has 4 layers; it can be 1 to 4");
  EXPECT_EQ(refusal(2, 1, "cnn3", "0,1-3"), "no error");
  EXPECT_EQ(refusal(2, 1, "cnn3", "0-1,2-4"),
            "stages = '0-1,2-4': there is no layer 4; write all layers from 0 to 3 in order, like "
            "0-1,2-3");
  EXPECT_EQ(refusal(2, 1, "cnn3", "0,1,2-3"),
            "stages = '0,1,2-3' is 3 of them, and pipeline = 2; make them as many");
  EXPECT_EQ(refusal(4, 2, "char-gpt"), "no error");
  EXPECT_EQ(
      refusal(1, 3, "char-gpt"),
      "heads = 4 of attention cannot be shared out evenly among 3 workers; choose a number of "
      "heads that tensor divides");
  EXPECT_EQ(refusal(1, 2, "mine.pt"),
            "the layers of model = mine.pt are not known, so it cannot be cut; take a built-in "
            "network, or leave out pipeline and tensor");
  EXPECT_EQ(refusal(1, 1, "mine.pt"), "no error");
}

TEST(Grid, CountsCopiesWhereOtherwiseWorkersCount) {
  Settings settings = grid_of(3, 2, 1);
  settings.strategy = StrategyKind::server;
  settings.server.group = 2;
  EXPECT_EQ(error_of([&] { check_settings(settings); }),
            "3 copies of the model cannot be shared out evenly in groups of 2; group must divide "
            "copies of the model");
  settings.server.group = 1;
  settings.server.placement = ServerSettings::Placement::workers;
  settings.server.servers = 4;
  EXPECT_EQ(error_of([&] { check_settings(settings); }),
            "4 servers do not fit on 3 copies of the model; with placement = workers there can be "
            "1 to 3");
}

TEST(Grid, KnowsWhereSlicesStayAlikeByThemselves) {
  const auto alike = [](const char* system) {
    Settings settings;
    read_settings(find_system(system).toml, system, settings);
    return slices_stay_alike(settings);
  };
  for (const char* system : {"horovod", "huawei-ring", "bigdl", "pairwise", "fedavg"}) {
    EXPECT_TRUE(alike(system)) << system;
  }
  for (const char* system :
       {"petuum", "tensorflow-backup", "gosgd", "deeplearning4j", "sparknet"}) {
    EXPECT_FALSE(alike(system)) << system;
  }
  Settings coded;
  coded.mix.codec.kind = CodecSettings::Kind::top_k;
  for (const StrategyKind strategy :
       {StrategyKind::pairwise, StrategyKind::allreduce, StrategyKind::server}) {
    coded.strategy = strategy;
    EXPECT_FALSE(slices_stay_alike(coded));
  }
}

// Each slice is trained as if it were alone: what its copies have at the end is what as many workers
// without a grid have, whatever the other slices do at the same time.
struct Slice {
  std::vector<float> weights, gradients;
};

Task<> train_slice(Comm& comm, const Settings& settings, Slice& mine, int copy, int slice) {
  mine.weights.assign(6, 0);
  mine.gradients.assign(6, 0);
  const Replica replica{mine.weights, mine.gradients};
  const std::vector<Range> parameters = {{0, 2}, {2, 6}};
  std::vector<Bucket> buckets = make_buckets(replica, parameters, full_bucket(settings));
  Workload workload;
  workload.buckets = ranges_of(buckets);
  workload.batches = 1'000;
  const auto strategy = make_strategy(settings, comm, workload);
  Step step(*strategy, replica, buckets);
  co_await strategy->start(replica);
  for (int i = 0; i < 4; ++i) {
    for (std::size_t each = 0; each < 6; ++each) {
      mine.gradients[each] = mine.weights[each] - static_cast<float>(slice * 100 + copy * 10 + i);
    }
    Task<bool> taken = step.take([&] {
      for (std::size_t each = 0; each < 6; ++each)
        mine.weights[each] -= 0.5f * mine.gradients[each];
    });
    co_await taken;
  }
  co_await strategy->finish(replica);
}

// The weights of all workers at the end.
std::vector<std::vector<float>> train_grid(Settings settings, int first_slice) {
  std::vector<Slice> slices(static_cast<std::size_t>(settings.workers));
  Cluster cluster(settings.workers + server_processes(settings));
  cluster.run([&](Comm& comm) -> Task<> {
    if (comm.rank() < settings.workers) {
      const int of_each = settings.parallel.slices();
      co_await train_slice(comm, settings, slices[static_cast<std::size_t>(comm.rank())],
                           comm.rank() / of_each, first_slice + comm.rank() % of_each);
    } else {
      Server server(serving_group(settings, comm), server_options(settings));
      co_await server.serve();
    }
  });
  std::vector<std::vector<float>> weights;
  for (const Slice& slice : slices) weights.push_back(slice.weights);
  return weights;
}

TEST(Grid, TrainsEachSliceAsIfItWereAlone) {
  using Kind = StrategyKind;
  for (Kind kind : {Kind::allreduce, Kind::pairwise, Kind::exponential, Kind::local, Kind::server,
                    Kind::ring_leader, Kind::single}) {
    for (int copies : {1, 2, 4}) {
      Settings settings = grid_of(copies, 3, 1);
      settings.strategy = kind;
      settings.optimizer.momentum = 0;
      settings.optimizer.lr = 0.5;
      settings.server.servers = kind == Kind::server ? 2 : 1;
      const auto together = train_grid(settings, 0);
      for (int slice = 0; slice < 3; ++slice) {
        Settings alone = settings;
        alone.parallel.pipeline = 1;
        alone.workers = copies;
        const auto expected = train_grid(alone, slice);
        for (int copy = 0; copy < copies; ++copy) {
          EXPECT_EQ(together[static_cast<std::size_t>(copy * 3 + slice)],
                    expected[static_cast<std::size_t>(copy)])
              << name_of(kind) << ", " << copies << " copies, slice " << slice;
        }
      }
    }
  }
}

}  // namespace
}  // namespace starling
