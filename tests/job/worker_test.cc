// A worker's loop without any framework: quadratics, each worker's with a minimum of its own. Ranks are
// threads here, which meet on loopback.
#include "job/worker.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <numeric>
#include <thread>

#include "exchange/collectives.h"
#include "job/launched.h"
#include "strategy/server_plan.h"
#include "strategy/systems.h"
#include "tests/error_of.h"
#include "tests/job/jobs.h"

namespace starling {
namespace {

constexpr std::array<std::size_t, 4> kLengths = {3, 1, 400, 7};  // of the parameters
constexpr std::size_t kWeights = 411;

// A model whose loss on a worker is half the squared distance to that worker's goal.
struct Quadratic {
  std::vector<float> weights = std::vector<float>(kWeights), gradients = weights;
  float goal = 0;

  Worker::Layout layout() {
    Worker::Layout layout{.replica = {weights, gradients}, .parameters = {}, .names = {}};
    std::size_t at = 0;
    for (const std::size_t length : kLengths) {
      layout.parameters.push_back({at, at + length});
      layout.names.push_back("parameter " + std::to_string(layout.names.size()));
      at += length;
    }
    return layout;
  }
  void backward(Worker& worker, float times = 1) {
    for (std::size_t i = 0; i < kWeights; ++i) gradients[i] += times * (weights[i] - goal);
    for (std::size_t each = kLengths.size(); each-- > 0;) worker.gradient_ready(each);
  }
  std::function<void()> sgd(float rate) {
    return [this, rate] {
      for (std::size_t i = 0; i < kWeights; ++i) weights[i] -= rate * gradients[i];
    };
  }
};

// One life of each rank, in a thread of its own; what it throws fails the test.
using Life = std::function<void(const Job&)>;
void live_as_workers(int size, const Life& life) {
  std::vector<std::jthread> threads;
  for (const Job& job : jobs(size)) {
    threads.emplace_back([&life, job] {
      try {
        life(job);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << job.rank << ": " << error.what();
      }
    });
  }
}

Settings worker_settings(int workers, StrategyKind strategy = StrategyKind::allreduce) {
  Settings settings;
  settings.workers = workers;
  settings.strategy = strategy;
  settings.bucket_kb = 1;  // two buckets
  return settings;
}

TEST(Worker, BeginsWithTheWeightsOfRank0) {
  live_as_workers(3, [](const Job& job) {
    Quadratic model;
    std::iota(model.weights.begin(), model.weights.end(), static_cast<float>(job.rank));
    Worker worker(join_alike(job, worker_settings(3)), worker_settings(3), model.layout(), {});
    EXPECT_EQ(model.weights[0], 0);
    EXPECT_EQ(model.weights[kWeights - 1], kWeights - 1);
    worker.finish();
  });
}

TEST(Worker, MovesByTheMeanOfAllGradients) {
  for (const int size : {1, 2, 3, 4}) {
    live_as_workers(size, [&](const Job& job) {
      Quadratic model{.goal = static_cast<float>(job.rank)};
      const Settings settings = worker_settings(size);
      Worker worker(join_alike(job, settings), settings, model.layout(), {});
      float expected = 0;
      const float mean_goal = static_cast<float>(size - 1) / 2;
      for (int step = 0; step < 5; ++step) {
        model.backward(worker);
        EXPECT_TRUE(worker.step(model.sgd(0.25f)));
        expected -= 0.25f * (expected - mean_goal);
        for (const float weight : model.weights) ASSERT_NEAR(weight, expected, 1e-5) << step;
        for (const float gradient : model.gradients) ASSERT_EQ(gradient, 0);
      }
      worker.finish();
    });
  }
}

TEST(Worker, SumsBackwardPassesAndExchangesOnce) {
  live_as_workers(2, [](const Job& job) {
    Quadratic model{.goal = job.rank == 0 ? 1.0f : 3.0f};
    Settings settings = worker_settings(2);
    settings.backward_passes = 3;
    Worker worker(join_alike(job, settings), settings, model.layout(), {});
    for (const bool taken : {false, false, true}) {
      model.backward(worker);
      EXPECT_EQ(worker.step(model.sgd(0.1f)), taken);
    }
    for (const float weight : model.weights) ASSERT_NEAR(weight, 0.1f * 3 * 2, 1e-6);
    worker.finish();
  });
}

// A worker left alone ends at its own goal, 0 to 3. Together they end where all pull as hard, or near
// to it if nobody waits for anybody; a barrier now and then keeps one thread from running far ahead.
class EverySystemWorks : public testing::TestWithParam<std::string> {};

TEST_P(EverySystemWorks, FindsWhatAllWantAndEndsAlike) {
  constexpr int kSize = 4;
  std::atomic<bool> in_step = false;
  std::array<Quadratic, kSize> models;
  live_as_workers(kSize, [&](const Job& job) {
    Settings settings = worker_settings(kSize);
    read_settings(find_system(GetParam()).toml, GetParam(), settings);
    settings.optimizer.lr = 0.05;
    Quadratic& model = models[static_cast<std::size_t>(job.rank)];
    model.goal = static_cast<float>(job.rank);
    Worker worker(join_alike(job, settings), settings, model.layout(), {});
    in_step = worker.strategy().in_step();
    for (int step = 0; step < 200; ++step) {
      model.backward(worker);
      worker.step(model.sgd(0.05f));
      if (step % 4 == 0) worker.barrier();
    }
    worker.finish();
  });
  for (const Quadratic& model : models) {
    EXPECT_EQ(model.weights, models[0].weights);
    const float mean = std::accumulate(model.weights.begin(), model.weights.end(), 0.0f) / kWeights;
    EXPECT_NEAR(mean, 1.5, in_step ? 0.4 : 1.0);
  }
}

std::vector<std::string> systems_in_workers() {
  std::vector<std::string> names;
  for (const System& system : named_systems()) {
    Settings settings = worker_settings(4);
    read_settings(system.toml, system.name, settings);
    if (server_processes(settings) == 0 && settings.parallel.slices() == 1) {
      names.push_back(system.name);
    }
  }
  return names;
}
INSTANTIATE_TEST_SUITE_P(Worker, EverySystemWorks, testing::ValuesIn(systems_in_workers()),
                         [](const auto& system) {
                           std::string name = system.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(Worker, ClipsWhatAllHaveTogether) {
  live_as_workers(2, [](const Job& job) {
    Quadratic model{.goal = 10};
    Settings settings = worker_settings(2);
    settings.optimizer.clip = 0.5;
    Worker worker(join_alike(job, settings), settings, model.layout(), {});
    model.backward(worker);
    worker.step(model.sgd(1));
    double squares = 0;
    for (const float weight : model.weights) squares += weight * weight;
    EXPECT_NEAR(std::sqrt(squares), 0.5, 1e-5);
    worker.finish();
  });
}

TEST(Worker, AsksTheFrameworkForGradientsBeforeTheyAreSent) {
  live_as_workers(2, [](const Job& job) {
    Quadratic model;
    Worker::Framework framework;
    framework.collect = [&](Range parameters) {
      const Worker::Layout layout = model.layout();
      for (std::size_t i = parameters.begin; i < parameters.end; ++i) {
        const Range range = layout.parameters[i];
        std::fill_n(model.gradients.begin() + static_cast<std::ptrdiff_t>(range.begin),
                    range.size(), 2.0f * static_cast<float>(job.rank));
      }
    };
    Worker worker(join_alike(job, worker_settings(2)), worker_settings(2), model.layout(),
                  framework);
    worker.gradient_ready(3);  // the others have none in this step
    worker.step(model.sgd(1));
    for (const float weight : model.weights) ASSERT_EQ(weight, -1);
    worker.finish();
  });
}

TEST(Worker, RefusesASecondBackwardOnceGradientsAreUnderWay) {
  live_as_workers(2, [](const Job& job) {
    Quadratic model;
    Worker worker(join_alike(job, worker_settings(2)), worker_settings(2), model.layout(), {});
    model.backward(worker);
    EXPECT_NE(error_of([&] {
                worker.gradient_ready(3);
              }).find("a second backward() in a step changed the gradient of parameter 3"),
              std::string::npos);
  });
}

TEST(Worker, AveragesOverThoseWhoHaveDataLeft) {
  live_as_workers(3, [](const Job& job) {
    const float slope = job.rank == 1 ? 10.0f : job.rank == 0 ? 1.0f : 4.0f;
    Quadratic model;
    Worker worker(join_alike(job, worker_settings(3)), worker_settings(3), model.layout(), {});
    worker.expect_uneven_inputs();
    for (int batch = 0; batch < (job.rank == 1 ? 2 : 5); ++batch) {
      std::ranges::fill(model.gradients, slope);
      for (std::size_t each = 0; each < kLengths.size(); ++each) worker.gradient_ready(each);
      worker.step(model.sgd(1));
    }
    worker.join(model.sgd(1));
    for (const float weight : model.weights) ASSERT_NEAR(weight, -(2 * 5.0 + 3 * 2.5), 1e-4);
    worker.finish();
  });
}

TEST(Worker, SaysWhoMadeFewerSteps) {
  live_as_workers(2, [](const Job& job) {
    Quadratic model;
    Worker worker(join_alike(job, worker_settings(2)), worker_settings(2), model.layout(), {});
    const auto step = [&] {
      model.backward(worker);
      worker.step(model.sgd(1));
    };
    step();
    if (job.rank == 1) return;
    const std::string error = error_of(step);
    EXPECT_NE(error.find("rank 1 ended after 1 steps, and this worker is in step 2"),
              std::string::npos)
        << error;
  });
}

TEST(Worker, FormsMeansAndBroadcasts) {
  live_as_workers(3, [](const Job& job) {
    Quadratic model;
    Worker worker(join_alike(job, worker_settings(3)), worker_settings(3), model.layout(), {});
    EXPECT_EQ(worker.mean(job.rank), 1);
    EXPECT_EQ(worker.mean({job.rank * 2.0, 5.0}), (std::vector<double>{2, 5}));
    std::array<int, 3> whole = {job.rank, 1, 2};
    worker.broadcast(std::as_writable_bytes(std::span(whole)), 2);
    EXPECT_EQ(whole[0], 2);
    EXPECT_NE(error_of([&] { worker.broadcast({}, 3); }).find("there is no rank 3"),
              std::string::npos);
    worker.barrier();
    worker.finish();
  });
}

TEST(Worker, TellsItsLauncherWhatHappens) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  live_as_workers(2, [&](Job job) {
    if (job.rank == 0) job.events_fd = pipe[1];
    Quadratic model;
    Worker worker(join_alike(job, worker_settings(2)), worker_settings(2), model.layout(), {});
    model.backward(worker);
    worker.step(model.sgd(1));
    worker.report({.loss = 0.5, .accuracy = 0.75});
    EXPECT_THROW(worker.broadcast({}, 7), Error);
    worker.finish();
  });
  ::close(pipe[1]);
  std::string told(1 << 16, '\0');
  told.resize(
      static_cast<std::size_t>(std::max<ssize_t>(0, ::read(pipe[0], told.data(), told.size()))));
  ::close(pipe[0]);
  for (const char* part :
       {"\"joined\"", "\"evaluation\"", "\"accuracy\":0.75", "\"worked\"", "\"worker_steps\":1"}) {
    EXPECT_NE(told.find(part), std::string::npos) << part << " in " << told;
  }
}

Settings elastic_settings(int workers) {
  Settings settings = worker_settings(workers);
  settings.elastic.on = true;
  return settings;
}

std::string door_of_first(Session& session) {
  const Member& first = session.generations()->roster().members[0];
  return to_string(first.door) + ":" + std::to_string(first.door.port);
}

// Steps with whoever is there.
void train_until(const std::atomic<bool>& over, Worker& worker, Quadratic& model) {
  while (!over) {
    try {
      model.backward(worker);
      worker.step(model.sgd(0.1f));
      if (worker.generation_is_over()) worker.next_generation();
    } catch (const Error& error) {
      if (!worker.can_go_on_after(error)) throw;
      worker.next_generation();
    }
  }
}

// Rank 1 dies as it hands over to the guest, whose first generation so breaks before it has begun.
TEST(Worker, ComesToALaterGenerationIfItsFirstOneBreaks) {
  std::promise<std::string> door;
  std::atomic<bool> over = false;
  std::vector<std::jthread> founders;
  std::vector<Job> all = jobs(2);
  Job guest = all[0];
  guest.listen_fd = -1;
  for (const Job& job : all) {
    founders.emplace_back([&, job] {
      Quadratic model;
      model.goal = 1;
      const std::shared_ptr<Session> session = join_alike(job, elastic_settings(2));
      Worker worker(session, elastic_settings(2), model.layout(), {});
      worker.keep({[&]() -> std::vector<std::byte> {
                     if (job.rank == 1) throw std::runtime_error("it dies");
                     return {};
                   },
                   [](ConstBytes) {}});
      if (job.rank == 0) door.set_value(door_of_first(*session));
      try {
        train_until(over, worker, model);
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(job.rank, 1) << error.what();
        EXPECT_STREQ(error.what(), "it dies");
      }
    });
  }
  guest.guest_of = door.get_future().get();
  const std::string error = error_of([&] {
    Quadratic model;
    Worker worker(join_alike(guest, elastic_settings(2)), elastic_settings(2), model.layout(), {});
    EXPECT_EQ(worker.size(), 2);
    EXPECT_GT(model.weights[0], 0);
    over = true;
  });
  over = true;
  EXPECT_EQ(error, "no error");
}

TEST(Worker, SaysWhyThereIsNoNextGeneration) {
  live_as_workers(2, [](Job job) {
    job.timeout = std::chrono::seconds(1);
    Settings settings = elastic_settings(2);
    settings.elastic.min_workers = 2;
    Quadratic model;
    Worker worker(join_alike(job, settings), settings, model.layout(), {});
    if (job.rank == 1) return worker.fail();
    const std::atomic<bool> never = false;
    try {
      train_until(never, worker, model);
      ADD_FAILURE() << "it went on alone";
    } catch (const DeadlineExceeded& error) {
      EXPECT_FALSE(worker.can_go_on_after(error));
    }
  });
}

Job launched_with(const std::string& toml) {
  Job job;
  job.size = 4;
  job.settings = toml;
  return job;
}

TEST(ProgramSettings, AreTheLaunchersAndTheProgramsTogether) {
  const Settings both =
      program_settings(launched_with("slow = '2:5'\nseed = 3"), "horovod", "bucket_kb = 64");
  EXPECT_EQ(both.strategy, StrategyKind::allreduce);
  EXPECT_EQ(both.workers, 4);
  EXPECT_EQ(both.bucket_kb, 64);
  EXPECT_EQ(both.seed, 3);
  EXPECT_EQ(program_settings(launched_with("strategy = 'allreduce'"), "", "").strategy,
            StrategyKind::allreduce);
}

TEST(ProgramSettings, MayNotContradict) {
  const Job told = launched_with("strategy = 'allreduce'");
  EXPECT_EQ(
      error_of([&] { program_settings(told, "pairwise", ""); }),
      "this program sets strategy = pairwise, and its launcher allreduce; say it in one place");
  EXPECT_EQ(error_of([&] { program_settings(launched_with(""), "", "workers = 3"); }),
            "this program sets workers = 3, and its launcher 4; say it in one place");
  EXPECT_NE(error_of([&] { program_settings(told, "", "no_such = 3"); }).find("no_such"),
            std::string::npos);
  EXPECT_NE(error_of([&] { program_settings(told, "parwise", ""); }).find("parwise"),
            std::string::npos);
}

TEST(ProgramSettings, SayWhoStartsServers) {
  EXPECT_EQ(error_of([&] { program_settings(launched_with(""), "distbelief", ""); }),
            "system distbelief needs 2 servers, which only the launcher can start; say so to it: "
            "`starling launch --system distbelief ...`");
  Job job = launched_with(find_system("distbelief").toml);
  job.size = 6;
  EXPECT_EQ(program_settings(job, "distbelief", "").workers, 4);
}

TEST(ProgramSettings, DoNotMatterToWhoIsAlone) {
  const Settings settings =
      program_settings(Job(), "distbelief", "clip = 2.0\nbackward_passes = 3");
  EXPECT_EQ(settings.strategy, StrategyKind::single);
  EXPECT_EQ(settings.optimizer.clip, 2);
  EXPECT_EQ(settings.backward_passes, 3);
  EXPECT_NE(error_of([] { program_settings(Job(), "", "perid = 3"); }).find("perid"),
            std::string::npos);
}

TEST(ProgramSettings, AreComparedWithRank0s) {
  live_as_workers(3, [](const Job& job) {
    const Settings settings = worker_settings(3);
    const auto session = join_alike(job, settings);
    check_alike(*session, settings, "period = 4\n");
    const std::string error = error_of(
        [&] { check_alike(*session, settings, job.rank == 1 ? "period = 16\n" : "period = 4\n"); });
    EXPECT_EQ(error, job.rank == 1
                         ? "rank 0 has period = 4, and this worker period = 16; all workers "
                           "need the same"
                         : "no error");
    session->run("parting", barrier(session->comm(), kControlChannel));
  });
}

}  // namespace
}  // namespace starling
