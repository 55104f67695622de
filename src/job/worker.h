// Worker: what a worker does around the steps of a training loop, whatever computes its gradients. It
// knows a model as flat memory; a framework lends that, and says when gradients are there.
//
//   Worker worker(session, settings, layout, framework);   // all begin with rank 0's weights
//   for each batch:
//     worker.gradient_ready(i);      // for each parameter, while the backward pass goes on
//     worker.step(update);           // exchanges as the strategy has it; update() is the optimizer's
//   worker.finish();                 // all workers now hold the same model
//
// In an elastic job a step may fail because somebody was lost, and somebody may join between two:
//
//     when a step throws PeerLost, or worker.generation_is_over():  worker.next_generation();
//
// train/dist.h is this for libtorch, python/starling/dist.py for torch in Python.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/run_summary.h"
#include "job/session.h"
#include "server/server_estate.h"
#include "strategy/estate.h"
#include "strategy/settings.h"
#include "strategy/step.h"

namespace starling {

class Worker {
 public:
  // What stands where in the flat memory that a framework lends.
  struct Layout {
    Replica replica;
    std::vector<Range> parameters;   // one after the other, from the first to the last gradient
    std::vector<std::string> names;  // of the parameters, for errors
    std::vector<Fold> folds = {};    // the matrices among them
    // Of the gradients, what others count when something is added up over a whole copy of the model:
    // what several workers of it have.
    std::vector<Range> counted_elsewhere = {};
  };

  // What a framework adds. Whatever it leaves out has nothing to do. Held for as long as the replica
  // is looked at.
  struct Framework {
    // Brings the gradients of these parameters into the replica.
    std::function<void(Range parameters)> collect = [](Range) {};
    // What a parameter's gradient is the product of, where that is known.
    std::function<std::optional<Factors>(std::size_t parameter)> factors =
        [](std::size_t) -> std::optional<Factors> { return {}; };
    // Where a model is spread over several workers: adds up gradients of what several of them have,
    // before they are exchanged, and makes weights alike after a step.
    std::function<Task<>()> add_tied_gradients = {};
    std::function<Task<>()> share_weights = {};
  };

  enum class Whose { trainer, user };  // the loop: the built-in trainer reports by itself

  Worker(std::shared_ptr<Session> session, Settings settings, Layout layout, Framework framework,
         Workload workload = {}, Whose loop = Whose::user);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Which copy of the model this worker trains, or has a slice of, and how many there are.
  int rank() { return comm().rank() / settings_.parallel.slices(); }
  int size() const { return settings_.copies(); }

  // The backward pass has this parameter's gradient. With the last one of a bucket its exchange
  // begins, and at each the loop gets a moment: no second thread is needed, and none to wait for.
  void gradient_ready(std::size_t parameter);

  // One step: brings the gradients together, lets the optimizer update, mixes weights, clears the
  // gradients, each as the strategy has it. With backward_passes = k only every k-th call does
  // that, and returns true; the others let the gradients add up. Before each call there is one
  // backward(): a second one throws Error if it would change gradients that are under way.
  bool step(const std::function<void()>& update);
  // Leaves the mean of all workers' models in each.
  void finish();

  // Whether workers come and go. Then between two steps another generation may be due.
  bool is_elastic() const { return session_->generations() != nullptr; }
  bool generation_is_over();
  // Whether an error is one that a later generation may do without: somebody is gone, or does not
  // answer.
  bool can_go_on_after(const Error& error) { return session_->can_go_on_after(error); }
  // After a step that has failed, or where the generation is over: goes on with those who are there
  // now, from where the work stands. False if this worker has left, as it had asked for. While it waits
  // for them, it calls `meanwhile` now and then; what that throws ends the wait.
  bool next_generation(const std::function<void()>& meanwhile = [] {});
  // Whether there is one: not after one that could not be had.
  bool has_generation() const { return strategy_ != nullptr; }
  // Asks the others to go on without us; it takes effect when the generation is over.
  void leave();
  // Dealers deal out turns of this generation: which batch of the whole training that is, and how many
  // there are. Nothing: the turn comes to none.
  std::optional<std::uint64_t> batch_at(std::uint64_t turn) const;
  const Workload& workload() const { return workload_; }
  // What was left when this generation began.
  const BatchLedger& ledger() const { return estate_.ledger(); }

  // What the optimizer remembers, as bytes, for a worker that takes over from another: how they are
  // had, and where they go. If some have come already, they go there now.
  struct Memory {
    std::function<std::vector<std::byte>()> save = [] { return std::vector<std::byte>(); };
    std::function<void(ConstBytes)> restore;
  };
  void keep(Memory memory);

  // Between two steps, when the strategy has paused (Strategy::pause): the weights, and what the strategy
  // must not lose. Whoever goes on from it begins with it, see Workload::past.
  void visit_state(State state);

  // An exception ends the loop that C++ does not see: this worker's end is a failure from now on, and
  // nobody is told that it has finished.
  void fail();

  // All workers call these alike, in the same order and between steps.
  double mean(double value);
  std::vector<double> mean(std::vector<double> values);
  // The root's bytes in everybody's, of which there are as many.
  void broadcast(std::span<std::byte> bytes, int root);
  // Nobody leaves before everybody has come.
  void barrier();

  // For workers that do not have the same number of batches: all say so before the first step, and
  // each calls join() when it has run out. It then goes along with the others until all have: where
  // gradients are averaged, it adds none, and the mean is over those who have some; where weights
  // are mixed, its model is mixed as it is. Where nobody waits for it, join() returns at once.
  // Throws Error for systems in which all wait for every worker's gradient at a server or leader,
  // and with several backward passes to a step.
  void expect_uneven_inputs();
  void join(const std::function<void()>& update);

  // What this worker's loop has measured: the run folder, the live page and TensorBoard show what
  // rank 0 tells. With an accuracy it counts as an evaluation, the last of which is the run's.
  struct Metrics {
    std::optional<double> loss = {}, test_loss = {}, accuracy = {}, epoch = {};
  };
  void report(const Metrics& metrics);

  // For the built-in trainer.
  Strategy& strategy() { return *strategy_; }
  // The lowest rank that is left, which speaks for all. Throws CutOff if this one must not.
  bool leads();
  ProcessComm& comm() { return session_->comm(); }
  // For what they do together beside the strategy: those who train the same slice of the model, those
  // who have the other slices of the same copy, and all.
  Group workers() { return workers_; }
  Group copy() { return copy_; }
  Group everyone() { return everyone_; }
  TcpLoop& loop() { return session_->loop(); }
  const Settings& settings() const { return settings_; }
  const Job& job() const { return session_->job(); }
  // Drives a task under the job's timeout and counts the time as spent in exchanges, not in
  // computing.
  void run(const char* what, Task<> task);
  // The same for what may be of any size: for as long as anything moves.
  void run_patiently(const char* what, Task<> task);
  // What was computed so far is on the timeline already.
  void note_computed() { computing_since_ = loop().now(); }
  Time exchanging() const { return exchanging_; }
  // The part of it in which this worker moved and reduced bytes; the rest it waited for others.
  Time moving_bytes() const { return moving_bytes_; }
  // What this worker has done so far.
  RankSummary summary();
  // One backward pass of a step is over, and the next one follows.
  void pass_over() { step_->pass_over(); }
  // The sum over all slices of a copy of the model.
  double sum_over_copy(double value);

 private:
  // What goes wrong here is told to the launcher, whoever catches it: by that it knows who failed by
  // itself, and who because of another.
  template <class Action>
  auto telling(const Action& action);
  void begin();
  void begin_generation();
  void part();
  void end_generation();
  void start();
  void take_over();
  std::vector<std::byte> own_state();
  void adopt_state(ConstBytes state);
  void collect(Bucket& bucket);
  bool clips_before_exchange() const;
  void prepare_exchange();
  void clip_gradients();
  double gradient_squares();
  void share_weights();
  void slow_down();
  bool take_step(const std::function<void()>& update);
  int count_with_data(bool has_data);
  void update_with(const std::function<void()>& update, int with_data);
  void average_over(int workers);
  Task<> hear_finish(int rank);
  Task<> unless_finished_before(Task<> task);
  Task<> until_someone_finished_before();
  void check_nobody_finished_before() const;
  Task<> until_all_are_heard();
  void tell_finish();
  Task<> send_finish();
  void report_progress();
  void report_worked();
  Task<> within_timeout(const char* what, Task<> task);
  Task<> timed(const char* what, Task<> task);

  std::shared_ptr<Session> session_;
  Settings asked_;     // as the job began
  Settings settings_;  // of this generation
  Workload workload_;
  Whose loop_;
  bool own_loop_ = false;  // the user's
  Group workers_, copy_, everyone_;
  Layout layout_;
  Framework framework_;
  std::unique_ptr<Strategy> strategy_;
  std::optional<Step> step_;
  Time exchanging_{0}, moving_bytes_{0};
  double slowness_ = 1;  // by how much this worker is slowed down on purpose
  Time computing_since_{0};

  Time started_{0}, reported_{0};
  std::uint64_t steps_ = 0;
  std::uint64_t sent_at_start_ = 0;
  std::optional<std::uint64_t> training_bytes_;  // once the training is over
  bool finished_ = false, failed_ = false;

  Memory memory_;
  std::vector<std::byte> memories_;  // that have come before anybody could have them
  Estate estate_;                    // in an elastic job
  ServerEstate blocks_;              // the same, where workers serve

  bool uneven_ = false;                        // what the workers have to learn from
  std::vector<std::uint64_t> finished_after_;  // how many steps each worker; kStillAtIt: it has not
  std::optional<Bell> somebody_finished_;
  std::list<Running> hearing_;
  std::optional<Running> traffic_;  // the first to go
};

}  // namespace starling
