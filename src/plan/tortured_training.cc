#include "plan/tortured_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include "base/error.h"
#include "plan/digest.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"

namespace starling {

using namespace std::chrono_literals;

SimulatedTraining draw_training(const System& system, std::uint64_t seed, Random& random) {
  SimulatedTraining training;
  read_settings(system.toml, system.name, training.settings);
  training.seed = seed;
  training.settings.seed = static_cast<int>(seed % 1000);
  const int group = std::max(1, training.settings.server.group);
  do {
    training.settings.workers = 2 + static_cast<int>(random.below(4));
  } while (training.settings.workers % group != 0);
  const auto workers = static_cast<std::uint64_t>(training.settings.workers);
  training.network.standard = {std::pow(10.0, random.uniform(5, 9)), Time(random.below(2'000'000))};
  training.compute = 10ms;
  training.jitter = 0.5 * random.uniform();
  training.noise = 0.1;
  training.elements = 8 + random.below(40);  // servers want one each
  training.buckets = 1 + static_cast<int>(random.below(3));
  if (wants_one_bucket(training.settings)) training.buckets = 1;
  const std::uint64_t epochs = 1 + random.below(2);
  training.batches_per_epoch = workers * (2 + random.below(9));
  training.batches = training.batches_per_epoch * epochs;
  return training;
}

std::string in_words(const SimulatedTraining& training) {
  return fmt::format(
      "{} workers, {} elements in {} buckets, {} batches in epochs of {}, {:.0f} bytes/s after {} "
      "us",
      training.settings.workers, training.elements, training.buckets, training.batches,
      training.batches_per_epoch, training.network.standard.bytes_per_second,
      training.network.standard.latency / 1us);
}

Time expected_time(const SimulatedTraining& training) {
  const auto steps = training.batches / static_cast<std::uint64_t>(training.settings.workers);
  return training.compute * static_cast<int>(steps + 2);
}

std::set<FaultKind> draw_kinds(Random& random, const std::set<FaultKind>& lethal) {
  const std::set<FaultKind> passing = {FaultKind::pause,       FaultKind::partition,
                                       FaultKind::delay,       FaultKind::slow_link,
                                       FaultKind::slow_worker, FaultKind::drift};
  std::set<FaultKind> all = lethal;
  all.insert(passing.begin(), passing.end());
  return std::array{lethal, passing, all}[random.below(3)];
}

Losses losses_of(const Faults& faults, int ranks, Time detection) {
  Losses losses;
  for (const auto* moments : {&faults.crashes, &faults.failures, &faults.leaves}) {
    for (const Faults::Moment& each : *moments) {
      losses.gone.insert(each.rank);
      losses.first = std::min(losses.first, each.at);
    }
  }
  for (const Faults::Moment& each : faults.restarts) losses.back.insert(each.rank);
  for (const Faults::Partition& each : faults.partitions) {
    if (each.until - each.from <= detection) continue;
    losses.in_part = losses.in_part || !each.others.empty();
    for (int a = 0; a < ranks; ++a) {
      for (int b = 0; b < ranks; ++b) {
        if (each.parts(a, b)) losses.parted.insert({a, b});
      }
    }
  }
  return losses;
}

namespace {

// What servers apply.
class UpdateBook {
 public:
  void note(int server, const Block& block, std::span<const Push> pushes);
  // Whether a gradient was applied twice, or, where none is dropped, one of a worker is missing.
  void check(const SimulatedTraining& training, const SimulatedResult& result,
             std::vector<std::string>& wrongs) const;

 private:
  // Which pushes of each worker have been applied to each block.
  std::map<std::pair<int, const Block*>, std::map<int, std::multiset<std::uint64_t>>> applied_;
};

void UpdateBook::note(int server, const Block& block, std::span<const Push> pushes) {
  for (const Push& push : pushes) applied_[{server, &block}][push.worker].insert(push.clock);
}

void UpdateBook::check(const SimulatedTraining& training, const SimulatedResult& result,
                       std::vector<std::string>& wrongs) const {
  const int stride = group_size(training.settings);
  const bool none_is_dropped = result.server && result.server->dropped == 0;
  std::map<int, std::uint64_t> counts;  // of pushes, by worker: the same for every block
  for (const auto& [block, by_worker] : applied_) {
    for (const auto& [worker, clocks] : by_worker) {
      const std::set<std::uint64_t> distinct(clocks.begin(), clocks.end());
      if (distinct.size() != clocks.size()) {
        wrongs.push_back(
            fmt::format("server {} applied a gradient of worker {} twice", block.first, worker));
      }
      const int rank = worker * stride;
      if (!none_is_dropped || !result.finished[static_cast<std::size_t>(rank)]) continue;
      const std::uint64_t count = counts.emplace(worker, distinct.size()).first->second;
      if (distinct.size() != count || *distinct.rbegin() + 1 != count) {
        wrongs.push_back(fmt::format(
            "server {} applied {} gradients of worker {}, the last of which is {}, where another "
            "block has had {}",
            block.first, distinct.size(), worker, *distinct.rbegin(), count));
      }
    }
  }
}

// What an error says: whom it names, and how.
struct Complaint {
  std::string text;
  int named = -1;
  bool cut_off = false;
  bool late = false;
};
Complaint complaint_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PeerLost& lost) {
    return {lost.what(), lost.rank()};
  } catch (const CutOff& cut) {
    return {cut.what(), -1, true};
  } catch (const DeadlineExceeded& late) {
    return {late.what(), -1, false, true};
  } catch (const std::exception& other) {
    return {other.what()};
  }
}

class Judge {
 public:
  Judge(const SimulatedTraining& training, const SimulatedResult& result, const Losses& losses)
      : training_(training), settings_(training.settings), result_(result), losses_(losses) {}

  std::vector<std::string> wrongs() {
    for (int rank = 0; rank < static_cast<int>(result_.finished.size()); ++rank) see(rank);
    check_final_models();
    if (all_workers_finished()) {
      check_batches();
      check_shares();
    }
    return std::move(wrongs_);
  }

 private:
  template <class... Args>
  void wrong(fmt::format_string<Args...> format, Args&&... args) {
    wrongs_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  bool finished(int rank) const {
    return result_.finished[static_cast<std::size_t>(rank)].has_value();
  }
  bool is_server(int rank) const { return rank >= settings_.workers; }

  // Whether the others can do without all those who are gone. Nobody can before all have the first
  // weights.
  bool can_be_borne() const {
    if (!losses_.parted.empty()) return false;
    for (const std::optional<Time>& started : result_.started) {
      if (!started || *started >= losses_.first) return false;
    }
    const bool lacks_worker =
        std::ranges::any_of(losses_.gone, [this](int rank) { return !is_server(rank); });
    return (!lacks_worker || survives_losses(settings_)) && every_shard_is_left();
  }
  bool every_shard_is_left() const {
    const Chain chain = server_chain(settings_);
    for (int shard = 0; shard < server_count(settings_); ++shard) {
      bool is_left = false;
      for (int position = 0; position < chain.replicas; ++position) {
        is_left = is_left || !losses_.gone.contains(chain.rank_at(shard, position));
      }
      if (!is_left) return false;
    }
    return true;
  }

  void see(int rank) {
    const std::exception_ptr& error = result_.errors[static_cast<std::size_t>(rank)];
    const bool may_be_gone = losses_.gone.contains(rank);
    if (!error) {
      if (!finished(rank) && !may_be_gone)
        wrong("rank {} has not finished, and did not say why", rank);
      return;
    }
    const Complaint complaint = complaint_of(error);
    if (losses_.back.contains(rank)) return;
    if (may_be_gone && complaint.text.ends_with("fails, as it was told to")) return;
    if (!losses_.any())
      return wrong("rank {} ends though nobody is lost: {}", rank, complaint.text);
    if (can_be_borne()) {
      return wrong("rank {} ends though it could do without: {}", rank, complaint.text);
    }
    if (!names_culprit(rank, complaint)) {
      wrong("rank {} does not name who was lost: {}", rank, complaint.text);
    }
  }

  bool names_culprit(int rank, const Complaint& complaint) const {
    // Who is cut off has lost everybody, and everybody has lost it.
    if (losses_.parted.contains(rank)) return true;
    if (complaint.cut_off) return false;
    // Some wait for those who have lost somebody whom they have not.
    if (complaint.late) return losses_.in_part;
    for (const int lost : losses_.gone) {
      if (is_named(lost, complaint)) return true;
    }
    for (const int lost : losses_.parted) {
      if (is_named(lost, complaint)) return true;
    }
    // Or, where losses are contained, one who could not go on: everybody speaks for itself. And who hangs
    // up before it has shaken hands cannot say on whose account.
    for (int other = 0; other < static_cast<int>(result_.errors.size()); ++other) {
      const std::exception_ptr& error = result_.errors[static_cast<std::size_t>(other)];
      if (!error || !is_named(other, complaint)) continue;
      if (survives_losses(settings_) || settings_.server.replicas > 1 || is_of_joining(complaint) ||
          is_of_joining(complaint_of(error))) {
        return true;
      }
    }
    return false;
  }

  static bool is_of_joining(const Complaint& complaint) {
    return complaint.text.find("in joining the job") != std::string::npos;
  }

  static bool is_named(int rank, const Complaint& complaint) {
    if (complaint.named >= 0) return complaint.named == rank;
    const std::size_t list = complaint.text.find("rank");  // "ranks 1 and 3", "ranks 1, 4 to 63"
    return list != std::string::npos &&
           complaint.text.find(std::to_string(rank), list) != std::string::npos;
  }

  bool all_workers_finished() const {
    for (int rank = 0; rank < settings_.workers; ++rank) {
      if (!finished(rank)) return false;
    }
    return true;
  }

  // Whoever finishes does so with the same model. Where two have lost each other whom the others still
  // reach, both may take themselves for the lowest that is left (docs/architecture.md).
  void check_final_models() {
    if (losses_.in_part) return;
    int first = -1;
    for (int rank = 0; rank < settings_.workers; ++rank) {
      if (!finished(rank)) continue;
      if (first < 0) first = rank;
      const auto& a = result_.weights[static_cast<std::size_t>(first)];
      const auto& b = result_.weights[static_cast<std::size_t>(rank)];
      if (a != b) wrong("ranks {} and {} ended with different models", first, rank);
      if (!std::ranges::all_of(b, [](float w) { return std::isfinite(w); })) {
        wrong("rank {} ended with weights that are no numbers", rank);
      }
    }
  }

  // Where nobody is lost each batch is worked on once. Who waits for nobody helps with what is left,
  // so some are seen twice; but no fewer than there are.
  void check_batches() {
    std::map<std::uint64_t, int> times;
    for (const auto& order : result_.order) {
      for (const std::uint64_t batch : order) ++times[batch];
    }
    if (!times.empty() && times.rbegin()->first >= training_.batches) wrong("a batch there is not");
    const bool some_rest = settings_.mix.rule == MixingSettings::Rule::sampled;
    const bool ends_early = server_count(settings_) > 0 && settings_.server.gate.epoch_share < 1;
    const bool in_turns = !(settings_.strategy == StrategyKind::mix && survives_losses(settings_));
    if (losses_.any()) return;
    if (in_turns) {
      for (const auto& [batch, count] : times) {
        if (count > 1) wrong("batch {} was worked on {} times", batch, count);
      }
      if (!some_rest && !ends_early && times.size() < training_.batches) {
        wrong("{} of {} batches were worked on", times.size(), training_.batches);
      }
    } else if (result_.all_batches() < training_.batches) {
      wrong("{} of {} batches were worked on", result_.all_batches(), training_.batches);
    }
  }

  // What gossip halves and adds up stays what it was.
  void check_shares() {
    if (losses_.any() || settings_.strategy != StrategyKind::mix) return;
    double all = 0;
    if (settings_.mix.rule == MixingSettings::Rule::sum_weight) {
      all = 1;
    } else if (settings_.mix.rule == MixingSettings::Rule::push_sum) {
      all = settings_.workers;
    } else {
      return;
    }
    if (std::abs(result_.mixing.final_share / all - 1) > 1e-4) {
      wrong("the shares of all workers are {} together, not {}", result_.mixing.final_share, all);
    }
  }

  const SimulatedTraining& training_;
  const Settings& settings_;
  const SimulatedResult& result_;
  const Losses& losses_;
  std::vector<std::string> wrongs_;
};

std::uint64_t digest_of(const SimulatedResult& result) {
  Digest digest;
  for (const auto& error : result.errors) digest.add(error ? complaint_of(error).text : "");
  for (const auto& finished : result.finished) {
    digest.add(static_cast<std::uint64_t>(finished.value_or(Time(-1)).count()));
  }
  for (const auto& weights : result.weights) {
    for (const float weight : weights) digest.add(std::bit_cast<std::uint32_t>(weight));
  }
  for (const auto& order : result.order) {
    for (const std::uint64_t batch : order) digest.add(batch);
  }
  for (const auto* bytes : {&result.wire_bytes_sent, &result.wire_bytes_received}) {
    for (const std::uint64_t each : *bytes) digest.add(each);
  }
  digest.add(static_cast<std::uint64_t>(result.end.count()));
  digest.add(result.trace);
  return digest.sum();
}

void tell_ends(const SimulatedResult& result, const Witness& witness) {
  for (std::size_t rank = 0; rank < result.errors.size(); ++rank) {
    if (result.errors[rank]) {
      witness(fmt::format("rank {} ended: {}", rank, complaint_of(result.errors[rank]).text));
    } else if (!result.finished[rank]) {
      witness(fmt::format("rank {} ended without a word", rank));
    }
  }
}

}  // namespace

Ordeal endure(SimulatedTraining& training, const std::string& story, const Losses& losses,
              const Witness& witness, const std::function<SimulatedResult()>& run) {
  UpdateBook updates;
  training.on_update = [&](int server, const Block& block, std::span<const Push> pushes) {
    updates.note(server, block, pushes);
  };
  if (witness) {
    witness(story);
    training.on_event = [&witness](Time when, int rank, const std::string& what) {
      const double ms = std::chrono::duration<double, std::milli>(when).count();
      witness(fmt::format("{:10.3f} ms  rank {} {}", ms, rank, what));
    };
  }
  Ordeal ordeal{story};
  try {
    const SimulatedResult result = run();
    if (witness) tell_ends(result, witness);
    ordeal.wrongs = Judge(training, result, losses).wrongs();
    updates.check(training, result, ordeal.wrongs);
    ordeal.digest = digest_of(result);
  } catch (const Error& error) {  // the world itself is stuck
    ordeal.wrongs.push_back(error.what());
  }
  return ordeal;
}

}  // namespace starling
