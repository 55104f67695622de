#include "train/trainer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/optim.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "exchange/collectives.h"
#include "job/checkpoint.h"
#include "job/cores.h"
#include "job/past.h"
#include "job/run_summary.h"
#include "job/worker_events.h"
#include "math/vector_math.h"
#include "strategy/checkpoint_pact.h"
#include "strategy/dealer.h"
#include "strategy/grid.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"
#include "train/batches.h"
#include "train/data_set.h"
#include "train/dist.h"
#include "train/evaluation.h"
#include "train/learner.h"
#include "train/legacy.h"
#include "train/optimizer_state.h"
#include "train/optimizers.h"
#include "train/stop_signal.h"

namespace starling {

namespace {

using nlohmann::json;

double seconds(Time time) { return std::chrono::duration<double>(time).count(); }

constexpr const char* kModelFile = "model.safetensors";
constexpr Channel kCheckpointChannel{5, Purpose::control, "a checkpoint"};

struct AskedToStop : Error {
  AskedToStop() : Error("the launcher asked it to stop") {}
};

// What the lead learns of every worker at the end.
struct WorkerResult {
  RankSummary summary;
  double squared_distance;  // of its weights from the final model
  MixReport mixing;
};

Shards shards_for(const Settings& settings, const DataSet& train) {
  if (settings.train.shards == TrainSettings::Shards::even) return {};
  return share_out(train.labels(), settings.copies(), settings.train.shards,
                   settings.train.shard_alpha, static_cast<std::uint64_t>(settings.seed));
}

class Trainer {
 public:
  Trainer(const Settings& settings, const Job& job, Workshop& workshop)
      : settings_(settings),
        place_(place_of(settings, job.rank)),
        legacy_(job, settings),
        data_(load_data(settings.train, settings.copies())),
        train_(*data_.train),
        test_(*data_.test),
        batches_(cut_batches()),
        steps_(steps_of(settings, batches_)),
        workshop_(workshop),
        session_(join_alike(job, settings)),
        dist_(session_, seeded_model(workshop), settings, workload()),
        learner_(workshop.make_learner(dist_)),
        optimizer_(make_optimizer(settings.optimizer, dist_.model())) {
    dist_.keep(memory());
    if (const auto interval = interval_of(settings.checkpoint)) {
      pact_.emplace(*interval, dist_.loop().now());
      if (!job.checkpoints.empty()) writer_.emplace(job, job.checkpoints);
    }
    deal();
    begin_where_it_stood();
    parameters_ = dist_.sum_over_copy(static_cast<double>(own_parameters()));
  }

  void run(const std::filesystem::path& run_folder) {
    const StopSignal stop(dist_.is_elastic());
    try {
      start_ = dist_.loop().now() - Time(legacy_.elapsed);
      while (!over_) {
        try {
          train(stop);
          if (!over_ && pact_ && !pact_->has_kept(rounds_)) keep_checkpoint();
          if (!over_) conclude(run_folder);
          over_ = true;
        } catch (const Error& error) {
          if (!dist_.can_go_on_after(error)) throw;
          go_on(stop);
        }
      }
    } catch (const std::exception& error) {
      if (leaves_the_model(error)) leave_model(run_folder / kModelFile);
      throw;
    }
  }

 private:
  // With those who are there now; or without us, if we have left.
  void go_on(const StopSignal& stop) {
    dealer_.reset();
    over_ = !dist_.next_generation([&] {
      if (stop.asked()) throw AskedToStop();
      if (stop.asked_to_leave()) dist_.leave();
    });
    if (!over_) deal();
  }
  std::uint64_t evaluations_due(std::uint64_t step) const {
    const auto every = static_cast<std::uint64_t>(std::ceil(
        settings_.train.evaluate_every * static_cast<double>(batches_.steps_per_epoch())));
    return every > 0 ? step / every : 0;
  }
  void deal() {
    // All workers of a generation count alike how often they have evaluated: if the last time may have
    // been cut short, it comes again.
    const std::uint64_t step = dist_.batch_at(0).value_or(0) / copies();
    evaluated_ = evaluations_due(std::max<std::uint64_t>(step, 1) - 1);
    done_ = DoneBatches();
    begin_round(step);
    if (!asks_for_work()) return;
    dealer_ = make_dealer(dist_.settings(), dist_.comm(), dist_.workload(), dist_.strategy());
  }

  void train(const StopSignal& stop) {
    const std::optional<Target> target = target_of(settings_.train);
    while (const std::optional<std::uint64_t> turn = next_batch(stop)) {
      const std::uint64_t step = step_of_round(*turn);
      const std::uint64_t due = evaluations_due(step);
      if (due > evaluated_) {
        evaluated_ = due;
        evaluate();
        if (dist_.leads()) {
          dist_.run("catching up", dist_.strategy().catch_up(dist_.model().replica()));
        }
        const bool reached = target && target->reached(accuracy_, loss_);
        if (reached && in_step()) break;
        if (reached && dealer_) dist_.run("asking all to stop", dealer_->stop());
        stopping_ = reached;
      }
      set_learning_rate(step);
      const bool taken = train_step(*turn);
      if (taken)
        legacy_.past.reset();  // a server beside this worker may have begun with it only now
      step_ = step + 1;
      report_progress();
      if (taken && checkpoint_is_due(stop)) keep_checkpoint();
      if (all_stop()) throw AskedToStop();
      if (stop.asked_to_leave()) dist_.leave();
      if (dist_.generation_is_over()) {
        go_on(stop);
        if (over_) return;
      }
    }
  }

  // What this worker must not lose, beside what others of its copy have.
  void visit_state(State state) {
    starling::visit_state(*optimizer_, state.in(kOptimizerState));
    workshop_.visit_state(state.in("workshop"));
    if (dealer_) dealer_->visit_state(state.in("dealer"));
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    torch::Tensor random = generator.get_state();
    state("torch_random", std::span(random.data_ptr<std::uint8_t>(), random.nbytes()));
    if (state.restores()) generator.set_state(random);
    const State own = state.in("trainer");
    std::vector<std::uint64_t> ledger = dist_.ledger().numbers();
    std::int64_t elapsed = (dist_.loop().now() - start_).count();
    own("copies", legacy_.copies);
    own.of_any_length("ledger", ledger);
    done_.visit_state(own.in("done"));
    own("rounds", rounds_);
    own("samples", samples_);
    own("elapsed", elapsed);
    own("step", step_);
    own("evaluated", evaluated_);
    own("aside", aside_);
    own("loss_sum", loss_sum_);
    own("losses", losses_);
    own("train_loss", train_loss_);
    own("accuracy", accuracy_);
    own("loss", loss_);
    own("spread", spread_);
    own("seen", seen_);
  }

  // After as many steps for all, where they go step by step.
  void begin_where_it_stood() {
    if (!legacy_.past) return;
    visit_state(legacy_.state());
    if (!legacy_.is_whole()) {  // what was drawn belongs to who drew it, and is not drawn again
      if (place_.copy == 0) samples_ = legacy_.samples;
      torch::manual_seed(Random{static_cast<std::uint64_t>(settings_.seed), legacy_.rounds,
                                static_cast<std::uint64_t>(place_.copy),
                                static_cast<std::uint64_t>(place_.stage)}
                             .bits());
      rounds_ = legacy_.rounds;
    }
    begin_round(rounds_);
  }
  void begin_round(std::uint64_t round) {
    rounds_ = round;
    if (pact_) pact_->begin(round);
  }

  // Those who cut together: all, or whoever has a copy of the model.
  Group cutters() { return cuts_together(settings_) ? dist_.everyone() : dist_.copy(); }

  bool checkpoint_is_due(const StopSignal& stop) {
    if (!pact_ || !pact_->meets_after(rounds_)) return false;
    dist_.run("agreeing on a checkpoint", pact_->meet(cutters(), rounds_, meets() && stop.asked()));
    // A launcher that waits for our end must know that there is something to write.
    if (all_stop()) report_event(dist_.job(), {{"event", "saving"}});
    return pact_->is_due();
  }
  // Whether they hear there that one is to stop. Of a worker that has nothing to write they need not.
  bool meets() const { return writer_ && pact_->goes_by_time(); }
  bool all_stop() const { return pact_ && pact_->all_stop(); }

  // A cut through all who go step by step, and their servers, is after the same step: whoever goes on
  // before servers have copied their state might change it. Who has joined by itself has no folder to
  // write to, and waits all the same.
  void keep_checkpoint() {
    const bool waits = cuts_together(settings_) && server_count(settings_) > 0;
    if (dealer_) dist_.run("a checkpoint", dealer_->pause());
    dist_.run("a checkpoint", dist_.strategy().pause());
    if (waits) dist_.run("a checkpoint", barrier(dist_.everyone(), kCheckpointChannel));
    Snapshot snapshot;
    if (writer_) {
      dist_.visit_state(State::saving(snapshot));
      visit_state(State::saving(snapshot));
    }
    if (dist_.leads()) dist_.run("a checkpoint", dist_.strategy().save_servers(rounds_));
    if (waits) dist_.run("a checkpoint", barrier(dist_.everyone(), kCheckpointChannel));
    if (writer_) {
      writer_->write(rounds_, dist_.comm().rank(), dist_.workload().generation,
                     std::move(snapshot));
    }
    pact_->keep(rounds_, dist_.loop().now());
  }

  // The launcher asks one worker, and only whoever leads speaks up when another is lost. One that
  // fails by itself has a model as good as any, unless the others go on.
  bool leaves_the_model(const std::exception& error) {
    if (!dist_.has_generation()) return true;  // nobody is there who would
    if (dynamic_cast<const AskedToStop*>(&error) != nullptr) return !all_stop() || dist_.leads();
    if (dist_.copy().size() > 1) return false;  // its other slices are lost, or will be
    if (dynamic_cast<const CutOff*>(&error) != nullptr) return false;
    const auto* lost = dynamic_cast<const PeerLost*>(&error);
    if (lost == nullptr && dynamic_cast<const DeadlineExceeded*>(&error) == nullptr) {
      return !survives_losses(settings_);
    }
    for (int rank = 0; rank < dist_.rank(); ++rank) {
      if (!dist_.comm().is_lost(rank) && (lost == nullptr || lost->rank() != rank)) return false;
    }
    return true;
  }

  // The last model of a run that does not come to its end; the first to leave one does so for all.
  void leave_model(const std::filesystem::path& file) {
    if (dist_.copy().size() == 1 && std::filesystem::exists(file)) return;
    const bool speaks = !dist_.has_generation() || tells();
    json event = {{"event", "stopped"}, {"step", step_}};
    try {
      if (speaks) report_event(dist_.job(), {{"event", "saving"}});
      save_model(file, {{"unfinished",
                         fmt::format("rank {}'s model after step {}", dist_.job().rank, step_)}});
    } catch (const std::exception& error) {
      event["error"] = error.what();
    }
    if (speaks) report_event(dist_.job(), event);
  }

  // All workers draw the same first weights, so that none need be sent, and their dropout from
  // streams of their own; those who have parts of the same layers draw alike.
  Model seeded_model(Workshop& workshop) {
    if (std::getenv("OMP_NUM_THREADS") == nullptr) {  // no launcher has shared the cores out
      at::set_num_threads(threads_of_worker(own_cores(), session_->job().local_size));
    }
    const auto seed = static_cast<std::uint64_t>(settings_.seed) * 10'000;
    torch::manual_seed(seed);
    workshop.visit_state(legacy_.state().in("workshop"));
    Model model = workshop.make_model(*session_, data_);
    torch::manual_seed(seed + static_cast<std::uint64_t>(place_.copy * settings_.parallel.pipeline +
                                                         place_.stage));
    return model;
  }

  Batches cut_batches() const {
    return {train_.count(), legacy_.copies, settings_.train.batch,
            static_cast<std::uint64_t>(settings_.seed), shards_for(settings_, train_)};
  }
  // The optimizer's, behind the number that batches are cut for: who comes to a run that was resumed with
  // another number of workers does not know it.
  Worker::Memory memory() {
    const Worker::Memory optimizers = memory_of(*optimizer_);
    Worker::Memory memory;
    memory.save = [this, optimizers] {
      std::vector<std::byte> bytes = optimizers.save();
      const Bytes copies = object_bytes(legacy_.copies);
      bytes.insert(bytes.begin(), copies.begin(), copies.end());
      return bytes;
    };
    memory.restore = [this, optimizers](ConstBytes bytes) {
      const Bytes copies = object_bytes(legacy_.copies);
      if (bytes.size() < copies.size())
        throw Error("what another worker handed over was cut short");
      std::ranges::copy(bytes.first(copies.size()), copies.begin());
      if (legacy_.copies < 1) throw Error("another worker has batches that are cut for nobody");
      batches_ = cut_batches();
      steps_ = steps_of(settings_, batches_);
      optimizers.restore(bytes.subspan(copies.size()));
    };
    return memory;
  }

  static std::uint64_t steps_of(const Settings& settings, const Batches& batches) {
    const TrainSettings& train = settings.train;
    const auto steps = train.steps > 0
                           ? static_cast<std::uint64_t>(train.steps)
                           : static_cast<std::uint64_t>(std::llround(
                                 train.epochs * static_cast<double>(batches.steps_per_epoch())));
    // Gradients that are still being added up at the end move no weights.
    if (settings.backward_passes > 1 &&
        static_cast<std::uint64_t>(settings.backward_passes) > steps) {
      throw Error(fmt::format("backward_passes = {} adds up the gradients of more batches than the "
                              "{} that a worker trains on, and would train nothing",
                              settings.backward_passes, steps),
                  "take fewer, or train for longer");
    }
    return steps;
  }

  // That batches are cut for; others than there were may have taken over.
  std::uint64_t copies() const { return static_cast<std::uint64_t>(legacy_.copies); }
  bool in_step() { return dist_.strategy().in_step(); }
  // One of a copy asks for its work; one, who knows the loss, speaks for it.
  bool asks_for_work() { return dist_.copy().rank() == 0; }
  bool tells() { return dist_.leads() && dist_.copy().rank() == learner_->who_knows(); }

  // Of the model, what counts here.
  std::size_t own_parameters() {
    std::size_t count = 0;
    const Model& model = dist_.model().model();
    for (std::size_t i = 0; i < model.parameters.size(); ++i) {
      if (model.counts(i, place_.part == 0)) count += dist_.model().range(i).size();
    }
    return count;
  }

  Workload workload() const {
    Workload work;
    work.own_samples = batches_.samples_of(place_.copy);
    work.batches = steps_ * copies();
    work.batches_per_epoch = batches_.steps_per_epoch() * copies();
    work.left = BatchLedger(work.batches);
    if (!legacy_.past) return work;
    work.past = legacy_.state();
    work.left = BatchLedger::of(legacy_.ledger);
    work.left.set_end(work.batches);
    if (!legacy_.is_whole()) work.left.strike_out(legacy_.done);
    const auto now = static_cast<std::uint64_t>(settings_.copies());
    work.batches = (work.left.left() + now - 1) / now * now;
    return work;
  }

  std::optional<std::uint64_t> next_batch(const StopSignal& stop) {
    std::uint64_t batch = kNoMore;
    if (asks_for_work() && stop.asked() && !meets()) batch = kStop;
    dist_.run("asking for work", ask_for_batch(batch));
    if (batch == kStop) throw AskedToStop();
    return batch == kNoMore ? std::nullopt : std::optional(batch);
  }
  Task<> ask_for_batch(std::uint64_t& batch) {
    if (asks_for_work() && batch != kStop) {
      Task<std::optional<std::uint64_t>> next = dealer_->next();
      const std::optional<std::uint64_t> dealt = co_await next;
      batch = dealt.value_or(kNoMore);
    }
    co_await broadcast(dist_.copy(), kCopyChannel, object_bytes(batch), 0);
  }

  void set_learning_rate(std::uint64_t step) {
    const double share = settings_.lr_schedule.share(step, batches_.steps_per_epoch(), steps_);
    for (torch::optim::OptimizerParamGroup& group : optimizer_->param_groups()) {
      group.options().set_lr(settings_.optimizer.lr * share);
    }
    dist_.strategy().set_rate(share);
  }

  // Whether it was the last one of those that make a step.
  bool train_step(std::uint64_t turn) {
    Batches::Batch batch;
    const std::optional<std::uint64_t> number = dist_.batch_at(turn);
    if (number && !dist_.strategy().rests()) {
      batch = batches_.batch(*number / copies(), static_cast<int>(*number % copies()));
      if (dist_.is_elastic() || copies() != static_cast<std::uint64_t>(dist_.size())) {
        batch.samples_of_all = samples_of_round(turn);
      }
    }
    if (!batch.indices.empty()) {
      const std::optional<double> loss = learner_->learn(train_.pick(batch.indices), weight(batch));
      if (loss) {
        loss_sum_ += in_its_unit(*loss);
        ++losses_;
      }
    } else {  // it has nothing to add, and comes to the exchange all the same
      for (int pass = 1; pass < passes_of_a_batch(settings_); ++pass) dist_.pass_over();
    }
    if (dealer_) dealer_->look_ahead();
    const bool taken = dist_.step(*optimizer_);
    samples_ += batch.indices.size();
    if (number) done_.add(*number);
    ++rounds_;
    return taken;
  }

  // The turns of all workers in the round that this one is in; the first of them comes to a batch.
  std::uint64_t first_of_round(std::uint64_t turn) {
    const auto n = static_cast<std::uint64_t>(dist_.size());
    return turn / n * n;
  }
  std::uint64_t step_of_round(std::uint64_t turn) {
    return dist_.batch_at(first_of_round(turn)).value_or(0) / copies();
  }
  std::size_t samples_of_round(std::uint64_t turn) {
    const std::uint64_t first = first_of_round(turn);
    std::size_t samples = 0;
    for (std::uint64_t other = first; other < first + static_cast<std::uint64_t>(dist_.size());
         ++other) {
      if (const auto number = dist_.batch_at(other)) {
        samples += batches_.size_of(*number / copies(), static_cast<int>(*number % copies()));
      }
    }
    return samples;
  }

  // Of text it is told in bits per character.
  double in_its_unit(double nats) const {
    return settings_.train.is_text() ? nats / std::log(2.0) : nats;
  }

  // Averaged gradients must weigh every sample alike, also when the last batch is shared out
  // unevenly.
  double weight(const Batches::Batch& batch) {
    if (!averages_gradients(settings_)) return 1;
    return static_cast<double>(batch.indices.size()) * dist_.size() /
           static_cast<double>(batch.samples_of_all);
  }

  // All together where they go step by step; else the lead alone, while the others go on.
  void evaluate() {
    if (!in_step() && !dist_.leads()) return;
    const auto evaluating = dist_.comm().record(Timeline::Kind::compute, "evaluation");
    const Score mean = aside([&] {
      return in_step() ? evaluate_mean(dist_, *learner_, test_)
                       : evaluate_own(dist_, *learner_, test_);
    });
    accuracy_ = mean.accuracy;
    loss_ = in_its_unit(mean.loss);
    spread_ = in_step() ? mean.spread : spread_from_models();
    report_progress("evaluation");
  }

  // Where nobody knows all weights: as far as the models that have come since the last time were
  // from ours. Two workers are sqrt(2) times as far from each other as from the mean.
  double spread_from_models() {
    const MixReport* report = dist_.strategy().mix_report();
    if (report == nullptr || report->squared_distance_sum == seen_.squared_distance_sum) {
      return NAN;  // none has come, or only changes of models, which tell no distance
    }
    const double square = (report->squared_distance_sum - seen_.squared_distance_sum) /
                          static_cast<double>(report->models() - seen_.models());
    seen_ = *report;
    return std::sqrt(dist_.sum_over_copy(square) / 2) / std::max(1e-30, length_of_model(dist_));
  }

  double epochs() const {
    return static_cast<double>(step_) / static_cast<double>(batches_.steps_per_epoch());
  }

  // Where a worker's time goes.
  struct TimeSpent {
    Time all{0}, exchanging{0}, moving_bytes{0};
  };
  TimeSpent spent() {
    return {dist_.loop().now() - start_, dist_.exchanging(), dist_.moving_bytes()};
  }
  // Evaluates: what that takes is not training's.
  template <class Evaluate>
  Score aside(const Evaluate& evaluate) {
    const TimeSpent before = spent();
    const Score score = evaluate();
    const TimeSpent after = spent();
    aside_.all += after.all - before.all;
    aside_.exchanging += after.exchanging - before.exchanging;
    aside_.moving_bytes += after.moving_bytes - before.moving_bytes;
    return score;
  }
  // Of training: from the first step until there is one model, evaluations left out. This is the
  // one meaning of a training's time, wherever it is told.
  TimeSpent training() {
    if (trained_) return *trained_;
    const TimeSpent now = spent();
    return {now.all - aside_.all, now.exchanging - aside_.exchanging,
            now.moving_bytes - aside_.moving_bytes};
  }

  // The launcher draws a bar and writes metrics.jsonl from these; four a second are plenty.
  void report_progress(const char* kind = "progress") {
    const Time now = dist_.loop().now();
    const bool evaluation = std::string_view(kind) == "evaluation";
    if (!tells()) return;
    if (!evaluation && step_ < steps_ && now - reported_ < std::chrono::milliseconds(250)) return;
    reported_ = now;
    if (losses_ > 0) train_loss_ = loss_sum_ / losses_;
    loss_sum_ = 0;
    losses_ = 0;
    json event = {{"event", kind},
                  {"step", step_},
                  {"steps", steps_},
                  {"epoch", epochs()},
                  {"time", seconds(now - start_)},
                  {"training_time", seconds(training().all)},
                  {"loss", train_loss_},
                  {"samples_per_second",
                   epochs() * static_cast<double>(train_.count()) / seconds(training().all)},
                  {"payload_bytes_sent", dist_.comm().ledger().total(Direction::sent).payload}};
    if (settings_.train.is_text()) event["loss_unit"] = kBitsPerCharacter;
    if (evaluation) {
      event["accuracy"] = accuracy_;
      event["test_loss"] = loss_;
      if (dist_.strategy().mix_report() != nullptr && std::isfinite(spread_)) {
        event["spread"] = spread_;
      }
    }
    report_event(dist_.job(), event);
  }

  void conclude(const std::filesystem::path& run_folder) {
    if (!in_step() && !stopping_) step_ = steps_;  // the last of them were others'
    const std::uint64_t memory = peak_memory_bytes();
    OwnModel own;
    const double square = finish(own);
    trained_ = training();
    const double own_accuracy = accuracy_of(own);
    if (in_step()) {
      const Score final_score = evaluate_shared(dist_, *learner_, test_);
      accuracy_ = final_score.accuracy;
      loss_ = in_its_unit(final_score.loss);
    }
    const MixReport* mixed = dist_.strategy().mix_report();
    WorkerResult mine;
    mine.squared_distance = square;
    length_ = length_of_model(dist_);
    if (mixed != nullptr) mine.mixing = *mixed;
    RankSummary& summary = mine.summary;
    summary = dist_.summary();
    summary.peak_memory_bytes = memory;
    summary.accuracy = own_accuracy;
    summary.samples = samples_;
    summary.waited_seconds = seconds(trained_->exchanging);
    summary.network_seconds = seconds(trained_->moving_bytes);
    for (bool over = false; !over;) {
      const int before = lead();
      try {
        report_to_lead(mine, run_folder);
        over = true;
      } catch (const PeerLost&) {  // if it was the lead, the next one takes over
        if (!survives_losses(settings_) || lead() == before) throw;
      }
    }
  }

  // What this worker had before there was one model. Its parameters are kept where the gradients
  // were, which nobody needs any more: a model may take half of the memory.
  struct OwnModel {
    std::vector<float> buffers;
  };

  // Once the training's time has been taken: whoever is done with it sooner than the others would
  // wait for them in the final mean.
  double accuracy_of(OwnModel& own) {
    const auto [weights, gradients] = dist_.model().replica();
    const auto exchange = [&, all = weights, kept = gradients] {
      std::ranges::swap_ranges(all.first(kept.size()), kept);
      std::ranges::swap_ranges(all.subspan(kept.size()), own.buffers);
    };
    exchange();
    const Score score = evaluate_own(dist_, *learner_, test_);
    exchange();
    return score.accuracy;
  }

  // Returns the square of how far this worker's weights were from the final model.
  double finish(OwnModel& own) {
    const auto [weights, gradients] = dist_.model().replica();
    const std::span<float> parameters = weights.first(gradients.size());
    const std::span<float> buffers = weights.subspan(gradients.size());
    std::ranges::copy(parameters, gradients.begin());
    own.buffers.assign(buffers.begin(), buffers.end());
    const Time begun = dist_.loop().now();
    try {
      dist_.finish();
    } catch (...) {  // what is there now may be a sum of some
      std::ranges::copy(gradients, parameters.begin());
      std::ranges::copy(own.buffers, buffers.begin());
      throw;
    }
    finishing_ = dist_.loop().now() - begun;
    return squared_distance(gradients, parameters) + squared_distance(own.buffers, buffers);
  }

  void report_to_lead(const WorkerResult& mine, const std::filesystem::path& run_folder) {
    if (in_step()) {
      report_progress("evaluation");
    } else {
      evaluate();
    }
    std::vector<WorkerResult> results = {mine};
    dist_.run("collecting the results", collect(results));
    std::ranges::sort(results, {}, [](const WorkerResult& each) { return each.summary.rank; });
    if (dist_.leads()) save_model(run_folder / kModelFile);
    if (tells()) report_result(results);
    // Nobody hangs up while another still reads.
    dist_.run("parting", part_from_all());
  }

  // Every worker that is left sends the lead its results, in the lead's own list.
  Task<> collect(std::vector<WorkerResult>& results) {
    if (!tells()) {
      co_await dist_.everyone().send(lead(), kControlChannel, std::as_bytes(std::span(results)));
      co_return;
    }
    for (int rank : others()) {
      WorkerResult result;
      try {
        co_await dist_.everyone().receive(rank, kControlChannel, object_bytes(result));
        results.push_back(result);
      } catch (const PeerLost&) {
        if (!survives_losses(settings_)) throw;
      }
    }
  }
  Task<> part_from_all() {
    if (!tells()) {
      co_await dist_.everyone().receive(lead(), kControlChannel, Bytes());
      co_return;
    }
    for (int rank : others()) {
      try {
        co_await dist_.everyone().send(rank, kControlChannel, ConstBytes());
      } catch (const PeerLost&) {  // all that it had to give is here
      }
    }
  }
  // Who tells: of the lowest copy that is left, who knows its loss.
  int lead() {
    int copy = 0;
    while (dist_.workers().is_lost(copy)) ++copy;
    return copy * settings_.parallel.slices() + learner_->who_knows();
  }
  // Who is left beside it.
  std::vector<int> others() {
    std::vector<int> ranks;
    for (int rank = 0; rank < dist_.settings().workers; ++rank) {
      if (rank != dist_.comm().rank() && !dist_.everyone().is_lost(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

  void report_result(const std::vector<WorkerResult>& workers) {
    RunSummary summary;
    std::uint64_t samples = 0;
    for (const WorkerResult& worker : workers) {
      summary.ranks.push_back(worker.summary);
      if (*worker.summary.rank % settings_.parallel.slices() == 0) {  // all of a copy had the same
        samples += worker.summary.samples.value_or(0);
      }
    }
    summary.strategy = name_of(settings_.strategy);
    summary.workers = settings_.workers;
    summary.model = settings_.train.model;
    summary.data = name_of(settings_.train.data);
    summary.parameters = static_cast<std::uint64_t>(parameters_);
    summary.accuracy = accuracy_;
    summary.loss = loss_;
    if (settings_.train.is_text()) summary.loss_unit = kBitsPerCharacter;
    const auto count = static_cast<double>(train_.count());
    // Those who have gone are not there to say what they have learned from.
    if (dist_.is_elastic()) samples = static_cast<std::uint64_t>(std::llround(epochs() * count));
    summary.epochs = static_cast<double>(samples) / count;
    summary.steps = step_;
    summary.samples = samples;
    summary.seconds = seconds(dist_.loop().now() - start_);
    summary.train_seconds = seconds(trained_->all);
    summary.samples_per_second = static_cast<double>(samples) / seconds(trained_->all);
    summary.finish_seconds = seconds(finishing_);
    if (const auto servers = dist_.strategy().server_report()) {
      summary.servers = {servers->updates, servers->applied(), servers->dropped,
                         StalenessSummary(servers->staleness)};
    }
    if (dist_.strategy().mix_report() != nullptr) {
      MixReport mixed;
      double squares = 0;
      for (const WorkerResult& worker : workers) {
        mixed += worker.mixing;
        squares += worker.squared_distance;
      }
      summary.mixing = {mixed.rounds, mixed.skipped, mixed.models(),
                        StalenessSummary(mixed.staleness)};
      const auto models = static_cast<double>(workers.size()) / settings_.parallel.slices();
      summary.spread = std::sqrt(squares / models) / std::max(1e-30, length_);
    }
    json event = as_json(summary);
    event["event"] = "result";
    report_event(dist_.job(), event);
  }

  void save_model(const std::filesystem::path& file,
                  std::map<std::string, std::string> metadata = {}) {
    metadata["model"] = settings_.train.model;
    metadata["strategy"] = name_of(settings_.strategy);
    learner_->save(file, metadata);
  }

  static constexpr std::uint64_t kNoMore = ~std::uint64_t{0}, kStop = kNoMore - 1;

  Settings settings_;
  Place place_;
  Legacy legacy_;
  DataSets data_;
  const DataSet& train_;
  const DataSet& test_;
  Batches batches_;
  std::uint64_t steps_;  // of each worker, if they share the work evenly
  Workshop& workshop_;
  std::shared_ptr<Session> session_;
  Dist dist_;
  std::unique_ptr<Learner> learner_;
  std::unique_ptr<Dealer> dealer_;  // where this worker asks for its copy's work
  std::unique_ptr<torch::optim::Optimizer> optimizer_;

  std::optional<CheckpointPact> pact_;
  std::optional<CheckpointWriter> writer_;
  std::uint64_t rounds_ = 0;  // that all workers have done: checkpoints are named by it
  DoneBatches done_;          // by this worker, of what was left when this many workers began

  std::uint64_t step_ = 0;
  std::uint64_t evaluated_ = 0;  // how often it was due
  bool over_ = false;            // for this worker
  bool stopping_ = false;        // this worker has asked all to stop
  std::uint64_t samples_ = 0;    // that this worker has trained on
  Time start_{0}, reported_{0}, finishing_{0};
  TimeSpent aside_;
  std::optional<TimeSpent> trained_;  // once there is one model
  double loss_sum_ = 0;
  int losses_ = 0;
  double train_loss_ = 0, accuracy_ = 0, loss_ = 0, spread_ = 0;
  double parameters_ = 0, length_ = 0;  // of the whole model
  MixReport seen_;                      // when the spread was last looked at
};

}  // namespace

void train(const Settings& settings, const Job& job, const std::filesystem::path& run_folder,
           Workshop& workshop) {
  Trainer(settings, job, workshop).run(run_folder);
}

}  // namespace starling
