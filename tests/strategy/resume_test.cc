// Workers and servers that begin anew from snapshots, in the middle of an epoch, end with the bits of a
// training that was never interrupted.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "exchange/collectives.h"
#include "plan/simulated_training.h"
#include "server/server.h"
#include "strategy/buckets.h"
#include "strategy/dealer.h"
#include "strategy/grid.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"
#include "strategy/step.h"
#include "tests/strategy/workers.h"

namespace starling {
namespace {

using Past = std::map<int, std::vector<std::byte>>;  // each rank's, as it would be in a file

constexpr std::size_t kElements = 64;
constexpr std::uint64_t kSteps = 24;

class Training {
 public:
  // Takes snapshots after so many steps; 0: never.
  Training(const Settings& settings, std::uint64_t cut, const Past& past = {})
      : settings_(settings), cut_(cut), cluster_(settings.workers + server_processes(settings)) {
    for (const auto& [rank, bytes] : past) past_[rank] = decode_snapshot(bytes);
  }

  Vectors weights() {
    weights_.resize(static_cast<std::size_t>(settings_.workers));
    cluster_.run(
        [&](Comm& comm) { return comm.rank() < settings_.workers ? work(comm) : serve(comm); });
    return weights_;
  }

  Past kept;
  std::vector<std::uint64_t> batches;  // that were dealt in this run

 private:
  State past_of(int rank) const {
    const auto found = past_.find(rank);
    return found == past_.end() ? State() : State::restoring(found->second);
  }

  Task<> serve(Comm& comm) {
    Server server(serving_group(settings_, comm), server_options(settings_), past_of(comm.rank()));
    server.on_save([&](std::uint64_t) {
      Snapshot snapshot;
      server.visit_state(State::saving(snapshot));
      kept[comm.rank()] = encode(snapshot);
    });
    co_await server.serve();
  }

  Task<> work(Comm& comm) {
    Floats& weights = weights_[static_cast<std::size_t>(comm.rank())];
    Floats gradients(kElements);
    weights.assign(kElements, comm.rank() == 0 ? 0.0f : 9.0f);
    const Replica replica{weights, gradients};
    const std::vector<Range> parameters = {{0, 24}, {24, 64}};
    const std::vector<Bucket> buckets =
        make_buckets(replica, parameters, wants_one_bucket(settings_) ? kElements : 0);
    Workload workload;
    workload.buckets = ranges_of(buckets);
    workload.folds = {{24, 8, 5}};
    workload.batches = kSteps * static_cast<std::uint64_t>(settings_.workers);
    workload.batches_per_epoch = workload.batches / 2;
    const auto strategy = make_strategy(settings_, comm, workload);
    const auto dealer = make_dealer(settings_, comm, workload, *strategy);
    Step step(*strategy, replica, buckets);
    const State past = past_of(comm.rank());
    past("weights", weights);
    dealer->visit_state(past.in("dealer"));
    co_await strategy->start(replica, past.in("strategy"));
    const auto all = static_cast<std::uint64_t>(settings_.workers);
    while (true) {
      Task<std::optional<std::uint64_t>> next = dealer->next();
      const std::optional<std::uint64_t> batch = co_await next;
      if (!batch) break;
      batches.push_back(*batch);
      for (std::size_t i = 0; i < kElements && !strategy->rests(); ++i) {
        Random noise{*batch, i};
        gradients[i] = weights[i] - static_cast<float>(i % 7) + static_cast<float>(noise.normal());
      }
      dealer->look_ahead();
      Task<bool> taken = step.take([&] {
        for (std::size_t i = 0; i < kElements; ++i) weights[i] -= 0.1f * gradients[i];
      });
      co_await taken;
      if (cut_ > 0 && *batch / all + 1 == cut_) co_await keep(comm, weights, *strategy, *dealer);
    }
    co_await strategy->finish(replica);
  }

  Task<> keep(Comm& comm, Floats& weights, Strategy& strategy, Dealer& dealer) {
    const Group workers = slice_workers(settings_, comm, GroupNumber::control);
    co_await dealer.pause();
    co_await strategy.pause();
    co_await barrier(workers, kControlChannel);
    Snapshot snapshot;
    const State state = State::saving(snapshot);
    state("weights", weights);
    dealer.visit_state(state.in("dealer"));
    strategy.visit_state(state.in("strategy"));
    kept[comm.rank()] = encode(snapshot);
    if (comm.rank() == 0) co_await strategy.save_servers(cut_);
    co_await barrier(workers, kControlChannel);
  }

  Settings settings_;
  std::uint64_t cut_;
  std::map<int, Snapshot> past_;
  Cluster cluster_;
  Vectors weights_;
};

class Resume : public testing::TestWithParam<std::string> {};

TEST_P(Resume, EndsWithTheBitsOfATrainingThatWasNeverInterrupted) {
  Settings settings;
  read_settings("workers = 4\nmomentum = 0.5\n", "the test", settings);
  read_settings(GetParam(), "the test", settings);
  check_settings(settings);
  const Vectors never = Training(settings, 0).weights();
  for (const std::uint64_t cut : {1u, 7u, 20u}) {
    Training first(settings, cut);
    EXPECT_EQ(first.weights(), never) << "taking a snapshot after step " << cut;
    ASSERT_EQ(first.kept.size(),
              static_cast<std::size_t>(settings.workers + server_processes(settings)));
    Training second(settings, 0, first.kept);
    EXPECT_EQ(second.weights(), never) << "going on after step " << cut;
    const auto left = std::ranges::count_if(first.batches, [&](std::uint64_t batch) {
      return batch / static_cast<std::uint64_t>(settings.workers) >= cut;
    });
    EXPECT_EQ(static_cast<std::ptrdiff_t>(second.batches.size()), left);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Systems, Resume,
    testing::Values(
        "strategy = 'allreduce'", "strategy = 'allreduce'\ncodec = 'top-k'\nworkers = 3",
        "strategy = 'allreduce'\ncodec = 'random'\ncodec_feedback = false",
        "strategy = 'allreduce'\ncodec = 'quantized'\ncodec_feedback = false\nworkers = 2",
        "strategy = 'allreduce'\ncodec = 'hierarchical'\ncodec_feedback = false",
        "strategy = 'allreduce'\ncodec = 'low-rank'",
        "strategy = 'allreduce'\ncodec = 'threshold'\ncodec_adaptive = true\ncodec_entropy = true",
        "strategy = 'ring-leader'", "strategy = 'pairwise'\npasses = 1",
        "strategy = 'pairwise'\npasses = 2\npasses_mean = 'group'\nperiod = 2",
        "strategy = 'exponential'\nperiod = 3", "strategy = 'local'\nprobability = 0.4",
        "strategy = 'pairwise'\noverlap = true\nperiod = 2",
        "strategy = 'mix'\ngraph = 'closed-ring'\ncodec = 'quantized'\nmixing_step = 0.1",
        "strategy = 'mix'\ngraph = 'closed-ring'\ncodec = 'top-k'\ncodec_feedback = false\n"
        "mixing_step = 0.05",
        "strategy = 'mix'\ngraph = 'exponential'\nmixing = 'push-sum'",
        "strategy = 'mix'\ngraph = 'tree'\nmixing = 'push-sum'\nperiod = 2",
        "strategy = 'mix'\ngraph = 'mesh'\nmixing = 'outer'\nperiod = 5",
        "strategy = 'mix'\ngraph = 'mesh'\nmixing = 'outer'\nperiod = 5\noverlap = true",
        "strategy = 'mix'\ngraph = 'mesh'\nmixing = 'outer'\nperiod = 3\ncodec = 'quantized'",
        "strategy = 'mix'\ngraph = 'star'\nmixing = 'sampled'\nclient_share = 0.5\nperiod = 2",
        "strategy = 'server'\ngate = 'bsp'\nservers = 3",
        "strategy = 'server'\ngate = 'bsp'\nservers = 4\nplacement = 'workers'",
        "strategy = 'server'\ngate = 'bsp'\nservers = 2\ngroup = 2",
        "strategy = 'server'\ngate = 'bsp'\nservers = 2\nlag = 2",
        "strategy = 'server'\ngate = 'bsp'\nservers = 2\npush_every = 2\nfetch_every = 3",
        "strategy = 'server'\ngate = 'bsp'\nservers = 2\ncodec = 'quantized'\n"
        "codec_feedback = false",
        "strategy = 'server'\ngate = 'bsp'\nservers = 2\nplacement = 'workers'\ncodec = 'top-k'",
        "strategy = 'server'\ngate = 'bsp'\nservers = 2\noptimizer = 'adam'\nmomentum = 0",
        "strategy = 'server'\ngate = 'bsp'\noptimizer = 'adagrad'\nmomentum = 0\n"
        "epoch_share = 0.75",
        "strategy = 'server'\ngate = 'ssp'\ndelay_bound = 0\nservers = 2"));

}  // namespace
}  // namespace starling
