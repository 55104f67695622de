#include "train/dist.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <exception>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/memory.h"
#include "exchange/allreduce.h"
#include "exchange/collectives.h"
#include "job/worker_events.h"
#include "math/vector_math.h"
#include "runtime/patience.h"
#include "runtime/race.h"
#include "strategy/grid.h"
#include "strategy/registry.h"
#include "strategy/server_plan.h"
#include "train/tied.h"

namespace starling {

namespace {

constexpr std::uint64_t kStillAtIt = ~std::uint64_t{0};

double in_seconds(Time time) { return std::chrono::duration<double>(time).count(); }

// On the wire, without what was sent to evaluate.
std::uint64_t exchanged_bytes(const Ledger& ledger) {
  return ledger.total(Direction::sent).wire -
         ledger.total(Direction::sent, Purpose::evaluation).wire;
}

// As a loop of the user's own joins.
Job launched_job() {
  Job job = job_from_environment();
  report_uncaught(job);
  // The launcher shows lines when they are complete; into a pipe they would come by the page.
  if (job.events_fd >= 0) std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  return job;
}

class BackwardHook : public torch::autograd::FunctionPostHook {
 public:
  explicit BackwardHook(std::function<void()> action) : action_(std::move(action)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    action_();
    return outputs;
  }

 private:
  std::function<void()> action_;
};

}  // namespace

Settings launched_settings(const Job& job) {
  Settings settings;
  if (!job.settings.empty()) read_settings(job.settings, "the launcher's settings", settings);
  settings.workers = job.size - server_processes(settings);
  check_settings(settings);
  return settings;
}

std::shared_ptr<Session> join_alike(Job job, const Settings& settings) {
  job.terms = agreed_settings(settings);
  return std::make_shared<Session>(std::move(job));
}

std::shared_ptr<Session> join_launched() {
  const Job job = launched_job();
  try {
    return join_alike(job, launched_settings(job));
  } catch (const std::exception& error) {
    if (job.events_fd >= 0) report_error(job, error);
    throw;
  }
}

namespace {

// A module that was there before the session cannot have layers that workers share.
std::shared_ptr<Session> join_with_whole_model() {
  std::shared_ptr<Session> session = join_launched();
  if (launched_settings(session->job()).parallel.slices() > 1) {
    const Error error("this program's model is whole in every worker, and cannot be cut",
                      "leave out --pipeline and --tensor, or use starling::Pipeline");
    if (session->job().events_fd >= 0) report_error(session->job(), error);
    throw error;
  }
  return session;
}

}  // namespace

Dist::Dist(torch::nn::Module& module) : Dist(join_with_whole_model(), module) {}

Dist::Dist(Model model, Settings settings, Job job, Workload workload)
    : Dist(join_alike(std::move(job), settings), std::move(model), settings, std::move(workload)) {}

Dist::Dist(std::shared_ptr<Session> session, Model model) try
    : Dist(session, std::move(model), launched_settings(session->job())) {
  own_loop_ = true;
  if (size() == 1 || out_of_data(settings_) == OutOfData::leaves) return;
  finished_after_.assign(static_cast<std::size_t>(size()), kStillAtIt);
  somebody_finished_.emplace(loop());
  for (int other = 0; other < size(); ++other) {
    if (other != rank()) hearing_.emplace_back(hear_finish(other));
  }
} catch (const std::exception& error) {
  if (session->job().events_fd >= 0) report_error(session->job(), error);
}

Dist::Dist(std::shared_ptr<Session> session, Model model, Settings settings, Workload workload)
    : settings_(std::move(settings)),
      session_(std::move(session)),
      workers_(slice_workers(settings_, comm(), GroupNumber::control)),
      copy_(copy_group(settings_, comm())),
      everyone_(
          Group(comm()).first(settings_.workers, static_cast<std::uint32_t>(GroupNumber::grid))),
      model_(std::move(model)) {
  const auto slow = slow_worker(settings_);
  if (slow && slow->who == comm().rank()) slowness_ = slow->factor;
  std::vector<Bucket> buckets = make_buckets();
  workload.buckets = ranges_of(buckets);
  workload.folds = model_.folds();
  strategy_ = make_strategy(settings_, comm(), std::move(workload));
  Step::Driver driver;
  driver.collect = [this](Bucket& bucket) { collect(bucket); };
  driver.wait = [this](const char* what, Task<> task) {
    if (!somebody_finished_) return within_timeout(what, std::move(task));
    return within_timeout(what, unless_finished_before(std::move(task)));
  };
  if (model_.model().tied) tied_pair_ = tied_pair(stage_group(settings_, comm()));
  if (tied_pair_ || clips_before_exchange()) {
    driver.before_exchange = [this] { prepare_exchange(); };
  }
  step_.emplace(*strategy_, model_.replica(), std::move(buckets),
                settings_.backward_passes * passes_of_a_batch(settings_), std::move(driver));
  watch_backward();
  run("agreeing on the first weights", strategy_->start(model_.replica()));
  // Others may go on without us; they must not wait for us if we end before our time.
  comm().owe_a_finish(survives_losses(settings_));
  report_event(this->job(), {{"event", "joined"}});
  traffic_.emplace(report_traffic(this->job(), comm()));
  started_ = loop().now();
  sent_at_start_ = exchanged_bytes(comm().ledger());
}

Dist::~Dist() {
  *self_ = nullptr;
  if (!own_loop_ || finished_) return;
  if (std::uncaught_exceptions() == 0) tell_finish();
  report_worked();
}

RankSummary Dist::summary() {
  const ByteCount sent = comm().ledger().total(Direction::sent);
  const ByteCount received = comm().ledger().total(Direction::received);
  RankSummary summary;
  summary.rank = comm().rank();
  summary.steps = steps_;
  summary.waited_seconds = in_seconds(exchanging_);
  summary.network_seconds = in_seconds(moving_bytes_);
  summary.peak_memory_bytes = peak_memory_bytes();
  summary.payload_bytes_sent = sent.payload;
  summary.wire_bytes_sent = sent.wire;
  summary.payload_bytes_received = received.payload;
  summary.wire_bytes_received = received.wire;
  summary.training_bytes_sent =
      training_bytes_.value_or(exchanged_bytes(comm().ledger()) - sent_at_start_);
  if (const auto kernel = session_->kernel().so_far()) {
    summary.kernel_bytes_sent = kernel->sent_bytes;
    summary.kernel_bytes_received = kernel->received_bytes;
  }
  return summary;
}

namespace {

nlohmann::json progress_event(const char* kind, std::uint64_t step, Time time) {
  return {{"event", kind},
          {"step", step},
          {"time", in_seconds(time)},
          {"training_time", in_seconds(time)}};
}

}  // namespace

void Dist::report(const Metrics& metrics) {
  if (!leads()) return;
  nlohmann::json event =
      progress_event(metrics.accuracy ? "evaluation" : "progress", steps_, loop().now() - started_);
  const auto tell = [&](const char* name, const std::optional<double>& value) {
    if (value) event[name] = *value;
  };
  tell("loss", metrics.loss);
  tell("test_loss", metrics.test_loss);
  tell("accuracy", metrics.accuracy);
  tell("epoch", metrics.epoch);
  report_event(job(), event);
}

// That it goes on, for whoever watches.
void Dist::report_progress() {
  const Time now = loop().now();
  if (!own_loop_ || now - reported_ < std::chrono::milliseconds(250) || !leads()) return;
  reported_ = now;
  nlohmann::json event = progress_event("progress", steps_, now - started_);
  event["payload_bytes_sent"] = comm().ledger().total(Direction::sent).payload;
  report_event(job(), event);
}

void Dist::report_worked() {
  nlohmann::json event = as_json(summary());
  event.update(progress_event("worked", steps_, loop().now() - started_));
  report_event(job(), event);
}

template <class Action>
auto Dist::telling(const Action& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    if (own_loop_ && job().events_fd >= 0) {
      report_worked();
      report_error(job(), error);
    }
    throw;
  }
}

bool Dist::leads() {
  comm().check_not_cut_off();
  for (int place = 0; place < rank(); ++place) {
    if (!workers_.is_lost(place)) return false;
  }
  return true;
}

std::vector<Bucket> Dist::make_buckets() {
  if (settings_.server.factors) {
    for (const auto& [parameter, trace] : model_.model().dense) trace->enabled = true;
  }
  std::vector<Range> parameters;
  for (std::size_t i = 0; i < model_.model().parameters.size(); ++i) {
    parameters.push_back(model_.range(i));
  }
  return starling::make_buckets(model_.replica(), parameters, full_bucket(settings_));
}

// The autograd engine tells when a parameter's gradient is there. On the CPU it does so in the
// thread that called backward(), so a bucket's exchange starts right then: the kernel moves its
// bytes while the backward pass goes on, and every further gradient gives the loop a moment. No
// second thread is needed, and none to wait for.
void Dist::watch_backward() {
  self_ = std::make_shared<Dist*>(this);
  if (size() == 1) return;
  for (std::size_t i = 0; i < model_.model().parameters.size(); ++i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(model_.model().parameters[i].second);
    accumulator->add_post_hook(std::make_unique<BackwardHook>([self = self_, i] {
      if (*self != nullptr) (*self)->gradient_ready(i);
    }));
    accumulators_.push_back(std::move(accumulator));  // autograd itself holds it only weakly
  }
}

void Dist::gradient_ready(std::size_t parameter) {
  step_->gradient_ready(parameter, model_.model().parameters[parameter].first);
  loop().poll();
}

// Servers see a gradient in pieces; its length is known only here.
bool Dist::clips_before_exchange() const {
  return settings_.optimizer.clip > 0 && strategy_->updates_weights();
}

void Dist::prepare_exchange() {
  model_.reclaim_gradients({0, model_.model().parameters.size()});
  if (tied_pair_) {
    run("adding up a tied gradient", add_tied_gradients(*tied_pair_, model_.model()));
  }
  if (clips_before_exchange()) clip_gradients();
}

void Dist::clip_gradients() {
  model_.reclaim_gradients({0, model_.model().parameters.size()});
  const double norm = std::sqrt(gradient_squares());
  if (norm > settings_.optimizer.clip) {
    scale(model_.replica().gradients, static_cast<float>(settings_.optimizer.clip / norm));
  }
}

// Of the whole model: what several workers of a copy have counts once.
double Dist::gradient_squares() {
  const bool is_first_part = place_of(settings_, comm().rank()).part == 0;
  double squares = std::pow(model_.gradients().norm().item<double>(), 2);
  for (std::size_t i = 0; i < model_.model().parameters.size(); ++i) {
    if (model_.model().counts(i, is_first_part)) continue;
    squares -= std::pow(model_.model().parameters[i].second.grad().norm().item<double>(), 2);
  }
  return sum_over_copy(squares);
}

void Dist::share_weights() {
  if (copy_.size() == 1 || slices_stay_alike(settings_)) return;
  run("sharing weights within a copy",
      starling::share_weights(part_group(settings_, comm()), tied_pair_, model_.model()));
}

double Dist::sum_over_copy(double value) {
  if (copy_.size() == 1) return value;
  run("adding up over a copy of the model",
      doubling_allreduce(copy_, kCopyChannel, std::span(&value, 1), Reduction::sum));
  return value;
}

void Dist::collect(Bucket& bucket) {
  model_.reclaim_gradients(bucket.parameters);
  if (!settings_.server.factors)
    return;  // else it is one parameter, perhaps the matrix of a dense layer
  for (const auto& [parameter, trace] : model_.model().dense) {
    if (parameter == bucket.parameters.begin) bucket.factors = trace->factors();
  }
}

// A worker that is to be slow waits after the backward pass for as long as it would then have
// taken.
void Dist::slow_down() {
  if (slowness_ == 1) return;
  const Time computed = loop().now() - computing_since_;
  const Time idle(std::llround(static_cast<double>(computed.count()) * (slowness_ - 1)));
  loop().run(sleep_until(loop(), loop().now() + idle));
}

bool Dist::step(torch::optim::Optimizer& optimizer) {
  const int with_data = uneven_ ? count_with_data(true) : size();
  return take_step([&] { update(optimizer, with_data); });
}

void Dist::update(torch::optim::Optimizer& optimizer, int with_data) {
  average_over(with_data);
  if (settings_.optimizer.clip > 0) clip_gradients();
  optimizer.step();
}

// What came of the exchange is a mean over all, of whom some had nothing to add.
void Dist::average_over(int workers) {
  if (workers == size() || out_of_data(settings_) != OutOfData::sends_zeros) return;
  scale(model_.replica().gradients, static_cast<float>(size()) / static_cast<float>(workers));
}

bool Dist::take_step(const std::function<void()>& update) {
  if (step_->last_pass()) {
    comm().timeline().add(
        {Timeline::Kind::compute, "forward and backward", computing_since_, loop().now()});
    slow_down();
  }
  const bool taken = telling([&] {
    return loop().run(step_->take([&] {
      const auto updating = comm().record(Timeline::Kind::compute, "optimizer");
      update();
    }));
  });
  if (!taken) return false;
  share_weights();
  for (const auto& [parameter, trace] : model_.model().dense) trace->forget();
  computing_since_ = loop().now();
  ++steps_;
  report_progress();
  return true;
}

double Dist::mean(double value) { return mean(std::vector<double>{value})[0]; }

std::vector<double> Dist::mean(std::vector<double> values) {
  if (size() == 1) return values;
  run("a mean of numbers", allreduce(doubling_allreduce, workers(), kCollectivesChannel,
                                     Vector(values), Reduction::mean));
  return values;
}

void Dist::broadcast(torch::Tensor tensor, int root) {
  if (root < 0 || root >= size()) {
    throw Error(fmt::format("there is no rank {} to broadcast from", root),
                fmt::format("there are 0 to {}", size() - 1));
  }
  if (size() == 1) return;
  const torch::NoGradGuard no_gradients;
  torch::Tensor flat = tensor.contiguous();
  const std::span<std::byte> bytes(static_cast<std::byte*>(flat.data_ptr()), flat.nbytes());
  run("a broadcast", starling::broadcast(workers(), kCollectivesChannel, Vector(bytes), root));
  if (!flat.is_same(tensor)) tensor.copy_(flat);
}

void Dist::barrier() {
  if (size() > 1) run("a barrier", starling::barrier(workers(), kCollectivesChannel));
}

torch::data::samplers::DistributedRandomSampler Dist::sampler(std::size_t samples) {
  return {samples, static_cast<std::size_t>(size()), static_cast<std::size_t>(rank())};
}

void Dist::expect_uneven_inputs() {
  if (size() == 1) return;
  if (out_of_data(settings_) == OutOfData::is_missed) {
    throw Error(fmt::format("strategy {} needs every worker's gradient in every step, so that none "
                            "may run out of data before the others",
                            name_of(settings_.strategy)),
                "give all the same number of batches, or use allreduce, a decentral system or "
                "asynchronous servers");
  }
  if (settings_.backward_passes > 1) {
    throw Error("uneven inputs and backward_passes do not go together",
                "leave out --backward-passes");
  }
  if (steps_ > 0) throw Error("expect_uneven_inputs() comes before the first step");
  uneven_ = out_of_data(settings_) != OutOfData::leaves;
}

void Dist::join(torch::optim::Optimizer& optimizer) {
  if (size() == 1 || out_of_data(settings_) == OutOfData::leaves) return;
  if (!uneven_) {
    throw Error("join() is for workers that expect uneven inputs",
                "call expect_uneven_inputs() before the first step, in every worker");
  }
  const bool updates = out_of_data(settings_) == OutOfData::sends_zeros;
  for (int others = count_with_data(false); others > 0; others = count_with_data(false)) {
    // The mean of the others' gradients moves this replica as it moves theirs, so that they stay
    // the same.
    take_step([&] {
      if (updates) update(optimizer, others);
    });
  }
}

int Dist::count_with_data(bool has_data) {
  std::vector<double> count{has_data ? 1.0 : 0.0};
  run("counting who has data left",
      allreduce(doubling_allreduce, workers(), kHasDataChannel, Vector(count), Reduction::sum));
  return static_cast<int>(count[0]);
}

Task<> Dist::hear_finish(int rank) {
  std::uint64_t steps = 0;
  try {
    co_await workers().receive(rank, kFinishChannel, object_bytes(steps));
  } catch (const PeerLost&) {  // who exchanges with it finds out
    co_return;
  }
  finished_after_[static_cast<std::size_t>(rank)] = steps;
  somebody_finished_->ring();
}

// A worker that makes more steps than another would wait for it until the deadline, and then blame
// the network.
Task<> Dist::unless_finished_before(Task<> task) {
  Task<int> contest = race(std::move(task), until_someone_finished_before());
  co_await contest;
}

Task<> Dist::until_someone_finished_before() {
  while (true) {
    for (std::size_t other = 0; other < finished_after_.size(); ++other) {
      if (finished_after_[other] > steps_) continue;
      throw Error(fmt::format("rank {} ended after {} steps, and this worker is in step {}", other,
                              finished_after_[other], steps_ + 1),
                  "all must make the same number, or call expect_uneven_inputs() and join()");
    }
    co_await somebody_finished_->rung();
  }
}

void Dist::tell_finish() {
  if (!somebody_finished_) return;
  try {
    loop().run(within(loop(), loop().now() + std::chrono::seconds(1), "parting", send_finish()));
  } catch (const Error&) {  // who is lost needs no word, and the others will see that we are gone
  }
}

Task<> Dist::send_finish() {
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    try {
      co_await workers().send(other, kFinishChannel, object_bytes(steps_));
    } catch (const PeerLost&) {
    }
  }
}

void Dist::finish() {
  tell_finish();
  // Where nobody waits for anybody, others may still have much to do.
  const char* const what = "agreeing on the final model";
  training_bytes_ = exchanged_bytes(comm().ledger()) - sent_at_start_;
  telling([&] {
    Task<> finish = strategy_->finish(model_.replica());
    loop().run(timed(what, with_patience(comm(), job().timeout, what, std::move(finish))));
  });
  share_weights();
  comm().owe_a_finish(false);
  finished_ = true;
  if (own_loop_) report_worked();
}

void Dist::run(const char* what, Task<> task) {
  telling([&] { loop().run(within_timeout(what, std::move(task))); });
  note_computed();
}

Task<> Dist::within_timeout(const char* what, Task<> task) {
  return timed(what, within(loop(), loop().now() + job().timeout, what, std::move(task)));
}

Task<> Dist::timed(const char* what, Task<> task) {
  const auto waiting = comm().record(Timeline::Kind::wait, what);
  const Time begin = loop().now();
  const Time worked = TcpLoop::processor_time();
  co_await task;
  exchanging_ += loop().now() - begin;
  moving_bytes_ += TcpLoop::processor_time() - worked;
}

}  // namespace starling
