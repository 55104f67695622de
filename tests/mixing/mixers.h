// Workers in the simulator that mix their weights: by a mixing rule alone (Mixers), or in a whole
// training in which each wants something else (train). And the plain maths beside them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "mixing/mixing.h"
#include "strategy/dealer.h"
#include "strategy/step.h"
#include "tests/strategy/workers.h"

namespace starling {

using namespace std::chrono_literals;

inline std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

// Each vector counted by its weight.
inline std::vector<double> mean_of(const Vectors& vectors, const std::vector<double>& weights) {
  std::vector<double> mean(vectors[0].size());
  double sum = 0;
  for (std::size_t rank = 0; rank < vectors.size(); ++rank) {
    const double weight = weights[rank];
    sum += weight;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] += weight * static_cast<double>(vectors[rank][i]);
    }
  }
  for (double& value : mean) value /= sum;
  return mean;
}

// Between two vectors, element by element: the largest distance.
template <class A, class B>
double difference(const A& a, const B& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(apart <= largest)) largest = apart;  // NaN shows
  }
  return largest;
}

// How far the workers are from their mean: the root of the mean square, per element.
inline double spread(const Vectors& vectors) {
  const std::vector<double> mean = mean_of(vectors);
  double sum = 0;
  for (const Floats& vector : vectors) {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      sum += std::pow(static_cast<double>(vector[i]) - mean[i], 2);
    }
  }
  return std::sqrt(sum / static_cast<double>(vectors.size() * mean.size()));
}

// A graph of one's own for `size` workers, written to a file: a ring with a chord, both ways; or
// directed, in which some are heard more often than others.
inline std::string graph_file(int size, bool directed) {
  static const TemporaryFolder folder;
  const std::string path =
      folder.path() / fmt::format("{}{}.txt", size, directed ? "_directed" : "_both_ways");
  std::ofstream file(path);
  for (int rank = 0; rank + 1 < size; ++rank) {
    file << rank << (directed ? " -> " : " ") << rank + 1 << "\n";
  }
  if (size > 1 && directed) file << size - 1 << " -> 0\n";
  if (size > 3) file << "0" << (directed ? " -> " : " ") << size - 2 << "\n";
  return path;
}

inline MixingSettings mixing_of(const std::string& rule, const std::string& graph, int size) {
  MixingSettings settings;
  settings.rule = named<MixingSettings::Rule>(rule);
  settings.graph.kind = named<GraphSettings::Kind>(graph == "directed-file" ? "file" : graph);
  settings.graph.size = size;
  if (settings.graph.kind == GraphSettings::Kind::file) {
    settings.graph.file = graph_file(size, graph == "directed-file");
  }
  return settings;
}

// The rule without a training around it. All start from zero and are then given weights of their
// own.
class Mixers {
 public:
  Mixers(const MixingSettings& settings, std::size_t elements, std::uint64_t seed = 1,
         Network network = {}, std::vector<std::uint64_t> samples = {})
      : weights(index(settings.graph.size), Floats(elements)),
        cluster(settings.graph.size, std::move(network)) {
    for (int rank = 0; rank < cluster.size(); ++rank) {
      rules.push_back(
          make_mixing(settings, cluster.comm(rank), samples.empty() ? 1 : samples[index(rank)]));
    }
    run([this](std::size_t rank) { return rules[rank]->start(weights[rank]); });
    weights = random_vectors(settings.graph.size, elements, seed);
  }

  // A round of all, for rules that wait for each other.
  void mix(std::uint64_t round) {
    run([this, round](std::size_t rank) { return rules[rank]->mix(weights[rank], round); });
  }
  // So many steps of all, each in its own time; for rules that do not wait. Then they settle. A
  // slow one does fewer, so that they end at about the same time.
  struct Pace {
    int steps = 100;
    double jitter = 0.3;                     // steps take up to so much longer, at random
    std::map<std::size_t, double> slowed{};  // rank -> how many times as long its steps take
    bool settle = true;
    std::uint64_t seed = 1;
  };
  std::vector<std::exception_ptr> go(const Pace& pace) {
    return cluster.try_run([this, &pace](Comm& comm) { return work(comm, pace); });
  }
  void go_well(const Pace& pace) {
    for (const std::exception_ptr& error : go(pace)) {
      if (error) std::rethrow_exception(error);
    }
  }
  void settle() {
    run([this](std::size_t rank) { return rules[rank]->settle(weights[rank]); });
  }

  // One by one, for letters in an order that is known.
  void mix_one(std::size_t rank, std::uint64_t round = 0) {
    run([=, this](std::size_t each) {
      return each == rank ? rules[rank]->mix(weights[rank], round) : wait_for(rank, 0ms);
    });
    wait();
  }
  void attend_one(std::size_t rank) {
    rules[rank]->attend(weights[rank]);
    wait();
  }
  // Until all that is under way has come.
  void wait() {
    run([this](std::size_t rank) { return wait_for(rank, 100ms); });
  }

  std::vector<double> shares() const {
    std::vector<double> result;
    for (const auto& rule : rules) result.push_back(static_cast<double>(rule->final_share()));
    return result;
  }
  MixReport report() const {
    MixReport sum;
    for (const auto& rule : rules) sum += rule->report();
    return sum;
  }

  Vectors weights;
  Cluster cluster;
  std::vector<std::unique_ptr<Mixing>> rules;

 private:
  template <class Hook>
  void run(const Hook& hook) {
    cluster.run([&](Comm& comm) { return hook(index(comm.rank())); });
  }
  Task<> wait_for(std::size_t rank, Time time) {
    Loop& loop = cluster.comm(static_cast<int>(rank)).loop();
    co_await sleep_until(loop, loop.now() + time);
  }
  Task<> work(Comm& comm, const Pace& pace) {
    const std::size_t rank = index(comm.rank());
    Random random{pace.seed, rank, 0x9ace};
    const double factor = pace.slowed.contains(rank) ? pace.slowed.at(rank) : 1;
    for (int step = 1; step <= static_cast<int>(pace.steps / factor); ++step) {
      const double time = 1e7 * factor * (1 + pace.jitter * random.uniform());
      co_await sleep_until(comm.loop(), comm.loop().now() + Time(std::llround(time)));
      rules[rank]->set_clock(static_cast<std::uint64_t>(step));
      rules[rank]->attend(weights[rank]);
      co_await rules[rank]->mix(weights[rank], static_cast<std::uint64_t>(step - 1));
    }
    if (pace.settle) co_await rules[rank]->settle(weights[rank]);
  }
};

// A whole training through the strategy's hooks: worker i minimizes |w - c_i|^2 / 2.
struct Training {
  Settings settings;
  std::size_t elements = 12;
  std::uint64_t steps = 400;  // of each worker, where all are alike
  double jitter = 0.3;
  Time compute = 10ms;
  Network network{{1e9, 100us}, {}};
  std::vector<std::uint64_t> samples = {};  // of each worker; none: one each
  std::vector<Faults::Moment> crashes = {};
  bool told_batches = true;  // a user's own loop need not know how many there are
  std::map<int, std::uint64_t> ends_after = {};  // rank -> steps, where not told
  // When a worker has done a step, with how many those are; before it mixes.
  std::function<void(std::size_t rank, std::uint64_t step)> on_step = {};

  Vectors centres() const {
    return random_vectors(settings.workers, elements,
                          33 + static_cast<std::uint64_t>(settings.seed));
  }
};

struct Trained {
  Vectors before_finish, weights;
  std::vector<std::uint64_t> steps;     // in which a worker trained
  std::vector<std::vector<Time>> sent;  // when each worker had sent something in a step
  std::vector<std::exception_ptr> errors;
  MixReport mixing;
};

inline std::string what(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  }
}

class TrainingRun {
 public:
  explicit TrainingRun(const Training& training)
      : training_(training),
        centres_(training.centres()),
        cluster_(training.settings.workers, training.network) {
    check_settings(training.settings);
    const std::size_t workers = index(training.settings.workers);
    result_.weights.assign(workers, {});
    result_.before_finish.assign(workers, {});
    result_.steps.resize(workers);
    result_.sent.resize(workers);
    cluster_.faults().crashes = training.crashes;
  }

  Trained run() {
    result_.errors = cluster_.live([this](Comm& comm) { return work(comm); });
    return std::move(result_);
  }

 private:
  Task<> work(Comm& comm) {
    const std::size_t rank = index(comm.rank());
    const Settings& settings = training_.settings;
    Floats& weights = result_.weights[rank];
    Floats gradients(training_.elements);
    weights.assign(training_.elements, comm.rank() == 0 ? 2.0f : 9.0f);
    const Replica replica{weights, gradients};
    const std::vector<Range> parameters{{0, training_.elements}};
    const std::vector<Bucket> buckets = make_buckets(replica, parameters, 0);
    Workload workload;
    workload.buckets = ranges_of(buckets);
    const auto workers = static_cast<std::uint64_t>(settings.workers);
    if (training_.told_batches) workload.batches = training_.steps * workers;
    if (!training_.samples.empty()) workload.own_samples = training_.samples[rank];
    const auto strategy = make_strategy(settings, comm, workload);
    const auto dealer = make_dealer(settings, comm, workload, *strategy);
    Step stepper(*strategy, replica, buckets);
    co_await strategy->start(replica);

    const auto slow = slow_worker(settings);
    Random random{static_cast<std::uint64_t>(settings.seed), rank, 0x7e57};
    std::uint64_t sent = comm.ledger().total(Direction::sent, Purpose::weights).payload;
    for (std::uint64_t step = 1;; ++step) {
      if (training_.told_batches) {
        Task<std::optional<std::uint64_t>> next = dealer->next();
        const std::optional<std::uint64_t> batch = co_await next;
        if (!batch) break;
      } else {
        const auto end = training_.ends_after.find(comm.rank());
        if (step > (end == training_.ends_after.end() ? training_.steps : end->second)) break;
      }
      if (!strategy->rests()) {
        ++result_.steps[rank];
        for (std::size_t i = 0; i < weights.size(); ++i) {
          gradients[i] = weights[i] - centres_[rank][i];
        }
        const double factor = slow && slow->who == comm.rank() ? slow->factor : 1;
        const double time = static_cast<double>(training_.compute.count()) * factor *
                            (1 + training_.jitter * random.uniform());
        co_await sleep_until(comm.loop(), comm.loop().now() + Time(std::llround(time)));
      }
      if (training_.on_step) training_.on_step(rank, step);
      Task<bool> taken = stepper.take([&] {
        const auto lr = static_cast<float>(settings.optimizer.lr);
        for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= lr * gradients[i];
      });
      co_await taken;
      const std::uint64_t now = comm.ledger().total(Direction::sent, Purpose::weights).payload;
      if (now > sent) result_.sent[rank].push_back(comm.loop().now());
      sent = now;
    }
    result_.before_finish[rank] = weights;
    co_await strategy->finish(replica);
    if (const MixReport* report = strategy->mix_report()) result_.mixing += *report;
  }

  const Training& training_;
  Vectors centres_;
  Cluster cluster_;
  Trained result_;
};

inline Trained train(const Training& training) { return TrainingRun(training).run(); }

inline void expect_all_well(const std::vector<std::exception_ptr>& errors) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    EXPECT_EQ(what(errors[rank]), "") << "rank " << rank;
  }
}

inline std::string message_of(const std::string& text) {
  std::string name = text;
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  }
  return name;
}

}  // namespace starling
