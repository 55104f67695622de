// members: an elastic training (plan/elastic_training.h). Workers and servers are killed, started again,
// leave, join, and are cut off from one another for up to 30 s. As long as anybody is left it comes to its
// end, no batch is left out, and where gradients are averaged each is learned from once. What servers
// have acknowledged is in the final model, as long as they do not all die at once or have copies.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "plan/digest.h"
#include "plan/elastic_training.h"
#include "plan/torture.h"
#include "strategy/dealer.h"
#include "strategy/server_plan.h"

namespace starling {

namespace {

using namespace std::chrono_literals;
using Kind = FlockEvent::Kind;

constexpr double kRounding = 0.3;  // of a sum of some thousand

// Who is not started again by itself, as workers are by chance, is by its launcher.
void kill_servers(FlockPlan& plan, int servers, Random random) {
  for (int host = plan.hosts; host < plan.hosts + servers; ++host) {
    for (std::uint64_t kills = random.below(3); kills > 0; --kills) {
      const Time when(random.below(static_cast<std::uint64_t>(FlockPlan::kTrouble.count())));
      plan.events.push_back({Kind::kill, when, {host}});
      plan.events.push_back({Kind::restart, when + Time(random.below(5'000'000'000)), {host}});
      plan.events.push_back({Kind::restart, FlockPlan::kTrouble + 1s, {host}});
    }
  }
  plan.sort_events();
}

// What a copy can make up for. A network that is split may keep all servers of a shard from those who
// go on.
void kill_one_server_at_a_time(FlockPlan& plan, int servers) {
  std::erase_if(plan.events, [](const FlockEvent& event) {
    return event.kind == Kind::cut || event.kind == Kind::cut_one_way;
  });
  Time when = 4s;
  for (int host = plan.hosts; host < plan.hosts + servers; ++host, when += 9s) {
    plan.events.push_back({Kind::kill, when, {host}});
    plan.events.push_back({Kind::restart, when + 1s, {host}});
  }
  plan.sort_events();
}

class Judgement {
 public:
  Judgement(const ElasticTraining& training, const ElasticResult& result)
      : training_(training), result_(result) {}

  std::vector<std::string> wrongs() {
    for (int host : result_.still_at_it) wrong("host {} is still at it", host);
    if (result_.models.empty()) return std::move(wrongs_);  // nobody was left
    const Settings& settings = training_.settings;
    if (settings.strategy == StrategyKind::server) {
      judge_servers();
    } else if (averages_gradients(settings)) {
      for (const auto& [roster, model] : result_.models) {
        if (std::abs(model - sum_of_gradients()) <= kRounding) continue;
        wrong("not each batch was learned from once: {} is not {}", model, sum_of_gradients());
      }
    } else if (out_of_data(settings) == OutOfData::leaves) {
      // Who has done its share helps others with theirs, whatever they are at: only the number counts.
      // And what one was at who is killed when nothing else is left to do is done by nobody.
      if (learned() + kills() < training_.batches) {
        wrong("{} of {} steps", learned(), training_.batches);
      }
    } else if (settings.mix.rule != MixingSettings::Rule::sampled) {  // where some rest
      for (std::uint64_t batch = 0; batch < training_.batches; ++batch) {
        if (!result_.applied.contains(batch)) wrong("batch {} was left out", batch);
      }
    }
    return std::move(wrongs_);
  }

 private:
  // A step that some blocks had when the generation ended, and nobody knew of, is done again. One server
  // that dies while all finish may leave a model to some, and another to those who have to go on. And
  // who was cut off while the others came to their end cannot know that they did: it goes on alone.
  void judge_servers() {
    const Settings& settings = training_.settings;
    const double model = -result_.models[0].weight;
    for (const auto& a : result_.models) {
      for (const auto& b : result_.models) {
        if (a.roster != b.roster || a.weight == b.weight) continue;
        return wrong("generation {} came to {} and to {}", a.roster.generation, a.weight, b.weight);
      }
    }
    if (averages_gradients(settings)) {
      if (model < sum_of_gradients() - kRounding) {
        wrong("a batch was left out: {} is less than {}", model, sum_of_gradients());
      }
    } else if (const double all =
                   settings.server.gate.epoch_share * static_cast<double>(training_.batches);
               static_cast<double>(learned()) < all - 1) {
      wrong("{} of {} batches were learned from", learned(), training_.batches);
    }
    if (settings.server.replicas > 1 && model < result_.acknowledged - kRounding) {
      wrong("what was acknowledged was lost: {} is less than {}", model, result_.acknowledged);
    }
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
    return static_cast<std::uint64_t>(
        std::ranges::count(training_.plan.events, Kind::kill, &FlockEvent::kind));
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
    kill_one_server_at_a_time(training.plan, training.servers);
  } else {
    kill_servers(training.plan, training.servers, Random{seed, 2});
  }
  const ElasticResult result = simulate(training, witness);
  std::ostringstream story;
  story << training.plan;
  Digest digest;
  digest.add(result.story);
  return {story.str(), Judgement(training, result).wrongs(), digest.sum()};
}

}  // namespace starling
