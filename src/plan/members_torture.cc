// members: an elastic training (plan/elastic_training.h). Workers and servers are killed, fail, are stopped,
// started again, leave, join, and are cut off from one another for up to 30 s. As long as anybody is left it
// comes to its end, no batch is left out, and where gradients are averaged each is learned from once. What
// servers have acknowledged is in the final model, as long as they do not all die at once or have copies.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "plan/digest.h"
#include "plan/elastic_training.h"
#include "plan/torture.h"
#include "strategy/dealer.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"

namespace starling {

namespace {

using namespace std::chrono_literals;

constexpr double kRounding = 0.3;  // of a sum of some thousand

const std::set<FaultKind> kPassing = {FaultKind::pause,       FaultKind::partition,
                                      FaultKind::delay,       FaultKind::slow_link,
                                      FaultKind::slow_worker, FaultKind::drift};

Time some_time(Random& random, Time most) {
  return Time(random.below(static_cast<std::uint64_t>(most.count())));
}

// Who is not started again by itself, as workers are by chance, is by its launcher.
void trouble_servers(FlockPlan& plan, int servers, Random random) {
  if (servers == 0) return;
  Faults faults;
  for (int host = plan.hosts; host < plan.hosts + servers; ++host) {
    for (std::uint64_t kills = random.below(3); kills > 0; --kills) {
      const Time when = some_time(random, FlockPlan::kSpan);
      faults.crashes.push_back({host, when});
      faults.restarts.push_back({host, when + some_time(random, 5s)});
      faults.restarts.push_back({host, FlockPlan::kSpan + 1s});
    }
  }
  plan.add(std::move(faults));
  if (random.below(2) == 0) {
    plan.add(draw_faults(random.bits(), plan.hosts + servers, FlockPlan::kSpan, kPassing));
  }
}

// What a copy can make up for: workers that are split among themselves, and one server after another that is
// killed, or cut off from all. Where the network is split otherwise, all servers of a shard may be kept
// from those who go on.
void lose_one_server_at_a_time(FlockPlan& plan, int servers, Random random) {
  std::erase_if(plan.faults.partitions, [&](Faults::Partition& each) {
    if (each.others.empty()) {
      for (int host = 0; host < plan.hosts; ++host) {
        if (std::ranges::count(each.ranks, host) == 0) each.others.push_back(host);
      }
    }
    return each.others.empty();
  });
  Faults faults;
  Time when = 0s;
  for (int host = plan.hosts; host < plan.hosts + servers; ++host, when += 9s) {
    if (random.below(2) == 0) {
      faults.crashes.push_back({host, when});
      faults.restarts.push_back({host, when + 1s});
    } else {
      faults.partitions.push_back({{host}, when, when + some_time(random, 3s)});
    }
  }
  plan.add(std::move(faults));
}

class Judgement {
 public:
  Judgement(const ElasticTraining& training, const ElasticResult& result)
      : training_(training), result_(result) {}

  std::vector<std::string> wrongs() {
    for (int host : result_.still_at_it) wrong("host {} is still at it", host);
    if (result_.models.empty()) {
      judge_giving_up();
      return std::move(wrongs_);
    }
    const Settings& settings = training_.settings;
    judge_likeness();
    if (settings.strategy == StrategyKind::server) {
      judge_servers();
    } else if (averages_gradients(settings)) {
      for (const auto& each : result_.models) {
        if (std::abs(each.weight - sum_of_gradients()) <= kRounding) continue;
        wrong("not each batch was learned from once: {} is not {}", each.weight,
              sum_of_gradients());
      }
    } else if (out_of_data(settings) == OutOfData::leaves) {
      // Who has done its share helps others with theirs, whatever they are at: only the number counts.
      // And what one was at who is killed when nothing else is left to do is done by nobody.
      if (learned() + kills() < training_.batches) {
        wrong("{} of {} steps", learned(), training_.batches);
      }
      judge_shares();
    } else if (settings.mix.rule != MixingSettings::Rule::sampled) {  // where some rest
      for (std::uint64_t batch = 0; batch < training_.batches; ++batch) {
        if (!result_.applied.contains(batch)) wrong("batch {} was left out", batch);
      }
      if (is_calm() && learned() > training_.batches) {
        wrong("{} batches were learned from {} times", training_.batches, learned());
      }
    }
    return std::move(wrongs_);
  }

 private:
  // Nobody is lost or out of reach: who comes and goes, and is slow, costs no step.
  bool is_calm() const {
    const Faults& faults = training_.plan.faults;
    return faults.crashes.empty() && faults.failures.empty() && faults.pauses.empty() &&
           faults.partitions.empty() && faults.delays.empty() && faults.slow_links.empty();
  }

  // Whoever was there from the beginning and is never told to end comes to the end.
  void judge_giving_up() {
    const Faults& faults = training_.plan.faults;
    std::set<int> gone;
    for (const auto* ends : {&faults.crashes, &faults.failures, &faults.leaves}) {
      for (const Faults::Moment& each : *ends) gone.insert(each.rank);
    }
    for (int host = 0; host < training_.plan.size; ++host) {
      if (!gone.contains(host)) return wrong("host {} has given up, and so have all", host);
    }
  }

  // Those who come to the end together have one model.
  void judge_likeness() {
    for (const auto& a : result_.models) {
      for (const auto& b : result_.models) {
        if (a.roster != b.roster || a.weight == b.weight) continue;
        return wrong("generation {} came to {} and to {}", a.roster.generation, a.weight, b.weight);
      }
    }
  }

  // What gossip halves and adds up stays what it was, where nobody takes some with him.
  void judge_shares() {
    const auto rule = training_.settings.mix.rule;
    const bool sums_to_one = rule == MixingSettings::Rule::sum_weight;
    if (!sums_to_one && rule != MixingSettings::Rule::push_sum) return;
    const Roster& roster = result_.models[0].roster;
    double sum = 0;
    int models = 0;
    for (const auto& each : result_.models) {
      if (each.roster != roster) continue;
      sum += each.share;
      ++models;
    }
    const double all = sums_to_one ? 1 : roster.workers();
    if (!is_calm() || models < roster.workers() || std::abs(sum / all - 1) < 1e-4) return;
    wrong("the shares of all workers are {} together, not {}", sum, all);
  }

  // A step that some blocks had when the generation ended, and nobody knew of, is done again. One server
  // that dies while all finish may leave a model to some, and another to those who have to go on. And
  // who was cut off while the others came to their end cannot know that they did: it goes on alone.
  void judge_servers() {
    const Settings& settings = training_.settings;
    for (const auto& each : result_.models) {
      const double model = -each.weight;
      if (averages_gradients(settings)) {
        if (model < sum_of_gradients() - kRounding) {
          wrong("a batch was left out: {} is less than {}", model, sum_of_gradients());
        }
        const double again = is_calm() ? 0 : most_done_again(each.roster);
        if (model > sum_of_gradients() + again + kRounding) {
          wrong("a batch was learned from too often: {} is more than {} and {}", model,
                sum_of_gradients(), again);
        }
      }
      if (settings.server.replicas > 1 && model < result_.acknowledged - kRounding) {
        wrong("what was acknowledged was lost: {} is less than {}", model, result_.acknowledged);
      }
    }
    if (averages_gradients(settings)) return;
    const double all = settings.server.gate.epoch_share * static_cast<double>(training_.batches);
    if (static_cast<double>(learned()) < all - 1) {
      wrong("{} of {} batches were learned from", learned(), training_.batches);
    }
  }

  // A step for each generation that ended, and each worker that can have been in it.
  double most_done_again(const Roster& roster) const {
    constexpr double kMostGradient = 11;
    return static_cast<double>(roster.generation - 1) * training_.plan.hosts * kMostGradient;
  }

  double sum_of_gradients() const {
    double sum = 0;
    for (std::uint64_t batch = 0; batch < training_.batches; ++batch) sum += gradient_of(batch);
    return sum;
  }
  std::uint64_t learned() const {
    std::uint64_t steps = 0;
    for (const auto& [batch, times] : result_.applied) steps += static_cast<std::uint64_t>(times);
    return steps;
  }
  std::uint64_t kills() const {
    return training_.plan.faults.crashes.size() + training_.plan.faults.failures.size();
  }
  template <class... Arguments>
  void wrong(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    wrongs_.push_back(fmt::format(text, std::forward<Arguments>(arguments)...));
  }

  const ElasticTraining& training_;
  const ElasticResult& result_;
  std::vector<std::string> wrongs_;
};

}  // namespace

Ordeal torture_members(const System& system, std::uint64_t seed, const Witness& witness) {
  Settings settings;
  read_settings(system.toml, system.name, settings);
  ElasticTraining training = elastic_training(settings, FlockPlan(Random{seed, 1}), seed);
  if (settings.server.replicas > 1) {
    lose_one_server_at_a_time(training.plan, training.servers, Random{seed, 2});
  } else {
    trouble_servers(training.plan, training.servers, Random{seed, 2});
  }
  const ElasticResult result = simulate(training, witness);
  std::ostringstream story;
  story << training.plan;
  Digest digest;
  digest.add(result.story);
  return {story.str(), Judgement(training, result).wrongs(), digest.sum()};
}

}  // namespace starling
