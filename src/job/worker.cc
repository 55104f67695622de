#include "job/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/memory.h"
#include "exchange/allreduce.h"
#include "exchange/collectives.h"
#include "job/launched.h"
#include "job/past.h"
#include "job/worker_events.h"
#include "math/vector_math.h"
#include "runtime/patience.h"
#include "runtime/race.h"
#include "strategy/grid.h"
#include "strategy/registry.h"

namespace starling {

namespace {

constexpr Time kTimeToPart = std::chrono::seconds(5);
constexpr std::uint64_t kStillAtIt = ~std::uint64_t{0};
// Optimizers have a model or two of their own; nobody hands over so many.
constexpr std::size_t kMostOfAModel = 64;
constexpr std::size_t kMostOfAState = 64 << 20;  // beside these

double in_seconds(Time time) { return std::chrono::duration<double>(time).count(); }

// On the wire, without what was sent to evaluate.
std::uint64_t exchanged_bytes(const Ledger& ledger) {
  return ledger.total(Direction::sent).wire -
         ledger.total(Direction::sent, Purpose::evaluation).wire;
}

}  // namespace

Worker::Worker(std::shared_ptr<Session> session, Settings settings, Layout layout,
               Framework framework, Workload workload, Whose loop)
    : session_(std::move(session)),
      asked_(std::move(settings)),
      settings_(asked_),
      workload_(std::move(workload)),
      loop_(loop),
      workers_(comm()),
      copy_(comm()),
      everyone_(comm()),
      layout_(std::move(layout)),
      framework_(std::move(framework)),
      estate_(workload_.left, averages_gradients(settings_)) {
  begin();
  report_joined(*session_);
  started_ = this->loop().now();
}

// A guest may come to a generation that ends before it has begun.
void Worker::begin() {
  try {
    return begin_generation();
  } catch (const Error& error) {
    const bool is_guest = is_elastic() && session_->generations()->roster().generation > 1;
    if (!is_guest || !can_go_on_after(error)) throw;
  }
  if (!next_generation()) throw Error("this worker has left before it had begun");
}

// All that a strategy needs, over the Comm that there is now.
void Worker::begin_generation() {
  if (is_elastic()) {
    const Roster& roster = session_->generations()->roster();
    settings_ = with_members(asked_, roster.workers(), roster.servers());
    workload_.generation = roster.generation;
    workload_.blocks = &blocks_;
  }
  workers_ = slice_workers(settings_, comm(), GroupNumber::control);
  copy_ = copy_group(settings_, comm());
  everyone_ = Group(comm()).first(settings_.workers, static_cast<std::uint32_t>(GroupNumber::grid));
  const auto slow = slow_worker(settings_);
  slowness_ = slow && slow->who == comm().rank() ? slow->factor : 1;
  if (is_elastic()) take_over();
  std::vector<Bucket> buckets =
      make_buckets(layout_.replica, layout_.parameters, full_bucket(settings_));
  workload_.buckets = ranges_of(buckets);
  workload_.folds = layout_.folds;
  strategy_ = make_strategy(settings_, comm(), workload_);
  Step::Driver driver;
  driver.collect = [this](Bucket& bucket) { collect(bucket); };
  driver.wait = [this](const char* what, Task<> task) {
    if (!somebody_finished_) return within_timeout(what, std::move(task));
    return within_timeout(what, unless_finished_before(std::move(task)));
  };
  if (framework_.add_tied_gradients || clips_before_exchange()) {
    driver.before_exchange = [this] { prepare_exchange(); };
  }
  step_.emplace(*strategy_, layout_.replica, std::move(buckets),
                settings_.backward_passes * passes_of_a_batch(settings_), std::move(driver));
  start();
  own_loop_ = loop_ == Whose::user;
  if (!own_loop_ || size() == 1 || out_of_data(settings_) == OutOfData::leaves || is_elastic()) {
    return;
  }
  finished_after_.assign(static_cast<std::size_t>(size()), kStillAtIt);
  somebody_finished_.emplace(this->loop());
  for (int other = 0; other < size(); ++other) {
    if (other != rank()) hearing_.emplace_back(hear_finish(other));
  }
}

void Worker::start() {
  const bool goes_on = estate_.generation() > 1;
  workload_.past(kWeightsState, layout_.replica.weights);
  workload_.past("steps", steps_);
  run_patiently("agreeing on the first weights",
                goes_on ? strategy_->resume(layout_.replica)
                        : strategy_->start(layout_.replica, workload_.past.in(kStrategyState)));
  workload_.past = State();
  // Others may go on without us; they must not wait for us if we end before our time.
  comm().owe_a_finish(survives_losses(settings_) || is_elastic());
  traffic_.emplace(report_traffic(job(), comm()));
  session_->board().count_steps();
  if (!goes_on) sent_at_start_ = exchanged_bytes(comm().ledger());
}

void Worker::visit_state(State state) {
  state(kWeightsState, layout_.replica.weights);
  state("steps", steps_);
  strategy_->visit_state(state.in(kStrategyState));
  if (!state.saves()) return;
  float share = strategy_->final_share();
  state(kShareState, share);
  const std::span<const float> final = strategy_->final_weights(layout_.replica.weights);
  if (final.data() == layout_.replica.weights.data()) return;
  std::vector<float> copy(final.begin(), final.end());
  state(kFinalState, copy);
}

// What looks at the Comm goes before it.
void Worker::end_generation() {
  if (strategy_ && session_->generations()->council().is_due()) part();
  comm().owe_a_finish(false);
  traffic_.reset();
  step_.reset();
  if (strategy_) strategy_->close();
  strategy_.reset();
  estate_.close();
}

// What is not heard of in time is done again.
void Worker::part() {
  const Generations& generations = *session_->generations();
  loop().run(race(estate_.part(generations.roster(), session_->generations()->council().roster()),
                  sleep_until(loop(), loop().now() + kTimeToPart)));
}

bool Worker::generation_is_over() {
  return is_elastic() && (session_->generations()->council().is_due() || comm().gone_count() > 0);
}

void Worker::leave() {
  Council& council = session_->generations()->council();
  if (!council.leaves()) council.leave();
}

// One that ends before it has begun is followed by another.
bool Worker::next_generation(const std::function<void()>& meanwhile) {
  while (true) {
    end_generation();
    if (!session_->next_generation(meanwhile)) {
      report_event(job(), {{"event", "left"}});
      return false;
    }
    std::ranges::fill(layout_.replica.gradients, 0.0f);
    try {
      begin_generation();
      report_generation(*session_);
      return true;
    } catch (const Error& error) {
      if (!session_->can_go_on_after(error)) throw;
    }
  }
}

namespace {

// The pieces of a state, each behind its length.
void append(std::vector<std::byte>& state, ConstBytes piece) {
  std::uint64_t bytes = piece.size();
  const Bytes length = object_bytes(bytes);
  state.insert(state.end(), length.begin(), length.end());
  state.insert(state.end(), piece.begin(), piece.end());
}
ConstBytes take_piece(ConstBytes& state) {
  std::uint64_t bytes = 0;
  const auto check = [](bool is_well) {
    if (!is_well) throw Error("what another worker handed over was cut short");
  };
  check(state.size() >= sizeof bytes);
  std::memcpy(&bytes, state.data(), sizeof bytes);
  state = state.subspan(sizeof bytes);
  check(state.size() >= bytes);
  const ConstBytes piece = state.first(bytes);
  state = state.subspan(bytes);
  return piece;
}

}  // namespace

std::vector<std::byte> Worker::own_state() {
  std::vector<std::byte> state;
  append(state, object_bytes(steps_));
  append(state, std::as_bytes(layout_.replica.weights));
  append(state, memory_.save());
  return state;
}

void Worker::adopt_state(ConstBytes state) {
  const auto fill = [&](Bytes place) {
    const ConstBytes piece = take_piece(state);
    if (piece.size() != place.size()) {
      throw Error("another worker handed over a model of another size");
    }
    std::ranges::copy(piece, place.begin());
  };
  fill(object_bytes(steps_));
  fill(std::as_writable_bytes(layout_.replica.weights));
  const ConstBytes memories = take_piece(state);
  memories_.assign(memories.begin(), memories.end());
  if (memory_.restore) memory_.restore(memories_);
}

void Worker::keep(Memory memory) {
  memory_ = std::move(memory);
  if (!memories_.empty()) memory_.restore(memories_);
}

void Worker::take_over() {
  const std::uint64_t generation = session_->generations()->roster().generation;
  if (generation == 1) {
    estate_.begin(workers_);
  } else {
    const Estate::State state{[this] { return own_state(); },
                              [this](ConstBytes bytes) { adopt_state(bytes); },
                              kMostOfAState + kMostOfAModel * layout_.replica.weights.size_bytes()};
    const Group group = slice_workers(settings_, comm(), GroupNumber::estate);
    run_patiently("taking over from the last generation",
                  estate_.take_over(group, generation, state));
  }
  workload_.batches = estate_.batches();
}

std::optional<std::uint64_t> Worker::batch_at(std::uint64_t turn) const { return estate_.at(turn); }

Worker::~Worker() {
  if (!own_loop_ || finished_ || !has_generation()) return;
  if (std::uncaught_exceptions() == 0 && !failed_) tell_finish();
  report_worked();
}

RankSummary Worker::summary() {
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

void Worker::report(const Metrics& metrics) {
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
void Worker::report_progress() {
  const Time now = loop().now();
  if (!own_loop_ || now - reported_ < std::chrono::milliseconds(250) || !leads()) return;
  reported_ = now;
  nlohmann::json event = progress_event("progress", steps_, now - started_);
  event["payload_bytes_sent"] = comm().ledger().total(Direction::sent).payload;
  report_event(job(), event);
}

void Worker::report_worked() {
  nlohmann::json event = as_json(summary());
  event.update(progress_event("worked", steps_, loop().now() - started_));
  report_event(job(), event);
}

template <class Action>
auto Worker::telling(const Action& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    const auto* const ours = dynamic_cast<const Error*>(&error);
    const bool ends_it = ours == nullptr || !can_go_on_after(*ours);
    if (own_loop_ && ends_it && job().events_fd >= 0) {
      report_worked();
      report_error(job(), error);
    }
    throw;
  }
}

bool Worker::leads() {
  comm().check_not_cut_off();
  for (int place = 0; place < rank(); ++place) {
    if (!workers_.is_lost(place)) return false;
  }
  return true;
}

void Worker::gradient_ready(std::size_t parameter) {
  step_->gradient_ready(parameter, layout_.names[parameter]);
  loop().poll();
}

// Servers see a gradient in pieces; its length is known only here.
bool Worker::clips_before_exchange() const {
  return settings_.optimizer.clip > 0 && strategy_->updates_weights();
}

void Worker::prepare_exchange() {
  framework_.collect({0, layout_.parameters.size()});
  if (framework_.add_tied_gradients) {
    run("adding up a tied gradient", framework_.add_tied_gradients());
  }
  if (clips_before_exchange()) clip_gradients();
}

void Worker::clip_gradients() {
  framework_.collect({0, layout_.parameters.size()});
  const double norm = std::sqrt(gradient_squares());
  if (norm > settings_.optimizer.clip) {
    scale(layout_.replica.gradients, static_cast<float>(settings_.optimizer.clip / norm));
  }
}

// Of the whole model: what several workers of a copy have counts once.
double Worker::gradient_squares() {
  const auto squares_of = [](std::span<const float> values) { return dot(values, values); };
  double squares = squares_of(layout_.replica.gradients);
  for (const Range range : layout_.counted_elsewhere) {
    squares -= squares_of(layout_.replica.gradients.subspan(range.begin, range.size()));
  }
  return sum_over_copy(squares);
}

void Worker::share_weights() {
  if (!framework_.share_weights || copy_.size() == 1 || slices_stay_alike(settings_)) return;
  run("sharing weights within a copy", framework_.share_weights());
}

double Worker::sum_over_copy(double value) {
  if (copy_.size() == 1) return value;
  run("adding up over a copy of the model",
      doubling_allreduce(copy_, kCopyChannel, std::span(&value, 1), Reduction::sum));
  return value;
}

void Worker::collect(Bucket& bucket) {
  framework_.collect(bucket.parameters);
  // Each bucket is then of one parameter, perhaps the matrix of a dense layer.
  if (settings_.server.factors) bucket.factors = framework_.factors(bucket.parameters.begin);
}

// A worker that is to be slow waits after the backward pass for as long as it would then have
// taken.
void Worker::slow_down() {
  if (slowness_ == 1) return;
  const Time computed = loop().now() - computing_since_;
  const Time idle(std::llround(static_cast<double>(computed.count()) * (slowness_ - 1)));
  loop().run(sleep_until(loop(), loop().now() + idle));
}

bool Worker::step(const std::function<void()>& update) {
  const int with_data = uneven_ ? count_with_data(true) : size();
  return take_step([&] { update_with(update, with_data); });
}

void Worker::update_with(const std::function<void()>& update, int with_data) {
  average_over(with_data);
  if (settings_.optimizer.clip > 0) clip_gradients();
  update();
}

// What came of the exchange is a mean over all, of whom some had nothing to add.
void Worker::average_over(int workers) {
  if (workers == size() || out_of_data(settings_) != OutOfData::sends_zeros) return;
  scale(layout_.replica.gradients, static_cast<float>(size()) / static_cast<float>(workers));
}

bool Worker::take_step(const std::function<void()>& update) {
  if (step_->last_pass()) {
    comm().timeline().add(
        {Timeline::Kind::compute, "forward and backward", computing_since_, loop().now()});
    slow_down();
  }
  const bool taken = telling([&] {
    estate_.took();
    return loop().run(step_->take([&] {
      const auto updating = comm().record(Timeline::Kind::compute, "optimizer");
      update();
      estate_.did();
    }));
  });
  if (!taken) return false;
  estate_.did();
  share_weights();
  computing_since_ = loop().now();
  ++steps_;
  if (is_elastic()) session_->generations()->council().note_step(estate_.done());
  session_->board().step_done();
  report_progress();
  return true;
}

double Worker::mean(double value) { return mean(std::vector<double>{value})[0]; }

std::vector<double> Worker::mean(std::vector<double> values) {
  if (size() == 1) return values;
  run("a mean of numbers", allreduce(doubling_allreduce, workers(), kCollectivesChannel,
                                     Vector(values), Reduction::mean));
  return values;
}

void Worker::broadcast(std::span<std::byte> bytes, int root) {
  if (root < 0 || root >= size()) {
    throw Error(fmt::format("there is no rank {} to broadcast from", root),
                fmt::format("there are 0 to {}", size() - 1));
  }
  if (size() == 1) return;
  run("a broadcast", starling::broadcast(workers(), kCollectivesChannel, Vector(bytes), root));
}

void Worker::barrier() {
  if (size() > 1) run("a barrier", starling::barrier(workers(), kCollectivesChannel));
}

void Worker::expect_uneven_inputs() {
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

void Worker::join(const std::function<void()>& update) {
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
      if (updates) update_with(update, others);
    });
  }
}

int Worker::count_with_data(bool has_data) {
  std::vector<double> count{has_data ? 1.0 : 0.0};
  run("counting who has data left",
      allreduce(doubling_allreduce, workers(), kHasDataChannel, Vector(count), Reduction::sum));
  return static_cast<int>(count[0]);
}

Task<> Worker::hear_finish(int rank) {
  std::uint64_t steps = 0;
  try {
    co_await workers().receive(rank, kFinishChannel, object_bytes(steps));
  } catch (const PeerLost&) {  // who exchanges with it finds out
    somebody_finished_->ring();
    co_return;
  }
  finished_after_[static_cast<std::size_t>(rank)] = steps;
  somebody_finished_->ring();
}

// A worker that makes more steps than another would wait for it until the deadline, and then blame
// the network.
Task<> Worker::unless_finished_before(Task<> task) {
  Task<int> contest = race(std::move(task), until_someone_finished_before());
  try {
    co_await contest;
  } catch (const PeerLost&) {  // it may be gone because it has finished
    check_nobody_finished_before();
    throw;
  }
}

Task<> Worker::until_someone_finished_before() {
  while (true) {
    check_nobody_finished_before();
    co_await somebody_finished_->rung();
  }
}

void Worker::check_nobody_finished_before() const {
  for (std::size_t other = 0; other < finished_after_.size(); ++other) {
    if (finished_after_[other] > steps_) continue;
    throw Error(fmt::format("rank {} ended after {} steps, and this worker is in step {}", other,
                            finished_after_[other], steps_ + 1),
                "all must make the same number, or call expect_uneven_inputs() and join()");
  }
}

// So that the next worker of the session hears nothing of this one's.
Task<> Worker::until_all_are_heard() {
  while (!std::ranges::all_of(hearing_, &Running::done)) co_await somebody_finished_->rung();
}

void Worker::tell_finish() {
  if (!somebody_finished_) return;
  try {
    loop().run(within(loop(), loop().now() + std::chrono::seconds(1), "parting", send_finish()));
  } catch (const Error&) {  // who is lost needs no word, and the others will see that we are gone
  }
}

Task<> Worker::send_finish() {
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    try {
      co_await workers().send(other, kFinishChannel, object_bytes(steps_));
    } catch (const PeerLost&) {
    }
  }
}

void Worker::finish() {
  tell_finish();
  // Where nobody waits for anybody, others may still have much to do.
  training_bytes_ = exchanged_bytes(comm().ledger()) - sent_at_start_;
  run_patiently("agreeing on the final model", strategy_->finish(layout_.replica));
  share_weights();
  if (is_elastic()) run("telling the end", session_->generations()->council().tell_end());
  if (somebody_finished_) run("hearing that all have finished", until_all_are_heard());
  comm().owe_a_finish(false);
  finished_ = true;
  if (own_loop_) report_worked();
}

void Worker::fail() {
  failed_ = true;
  comm().owe_a_finish(true);
}

void Worker::run(const char* what, Task<> task) {
  telling([&] { loop().run(within_timeout(what, std::move(task))); });
  note_computed();
}

void Worker::run_patiently(const char* what, Task<> task) {
  telling([&] {
    loop().run(timed(what, with_patience(comm(), job().timeout, what, std::move(task))));
  });
  note_computed();
}

Task<> Worker::within_timeout(const char* what, Task<> task) {
  return timed(what, within(loop(), loop().now() + job().timeout, what, std::move(task)));
}

Task<> Worker::timed(const char* what, Task<> task) {
  const auto waiting = comm().record(Timeline::Kind::wait, what);
  const Session::Exchange exchange(*session_);
  const Time begin = loop().now();
  const Time worked = TcpLoop::processor_time();
  co_await task;
  exchanging_ += loop().now() - begin;
  moving_bytes_ += TcpLoop::processor_time() - worked;
}

}  // namespace starling
