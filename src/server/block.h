// Block: a stretch of the model at its server, with the optimizer that updates it and the gradients
// that wait to be applied. Everything a replica would have to follow is here: the weights, the
// optimizer, the version and the workers' clocks.
//
// Words: a worker's *clock* counts its pushes that have arrived; the block's *version* counts the
// updates made; a gradient's *staleness* is how far the version has moved since the worker read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/state.h"
#include "runtime/bell.h"
#include "server/gate.h"
#include "server/optimizer.h"
#include "server/server_report.h"
#include "server/staleness_rule.h"

namespace starling {

struct Push {
  int worker;
  std::uint64_t clock;        // which of the worker's pushes this is, from 0
  std::uint64_t version;      // of the weights that the gradient was computed on
  std::span<float> gradient;  // used up when it is applied: holds the new weights then
  double rate = 1;            // how much of the learning rate it is to be applied with
};

class Block {
 public:
  struct Options {
    std::size_t elements;
    int workers;
    OptimizerSettings optimizer;
    StalenessRule staleness;
    bool tells_differences = false;
  };
  // Sees every update: the pushes it was made of, in the order in which they were added up.
  using Follower = std::function<void(const Block&, std::span<const Push> pushes)>;

  // What was done to a block: whoever does the same to a copy of it has the same, to the bit.
  struct Update {
    std::span<const Push> pushes;
    std::span<const float> gradient;  // their mean, corrected for staleness
    double lr_factor;
  };
  // Sees all that happens to a block, before it does.
  class Witness {
   public:
    virtual void will_update(const Update& update) = 0;
    virtual void was_read(int worker) = 0;

   protected:
    ~Witness() = default;
  };

  Block(Loop& loop, const Options& options, const Gate& gate, ServerReport& report);

  // What a gate looks at.
  int workers() const { return static_cast<int>(workers_.size()); }
  int active_workers() const;
  bool active(int worker) const { return of(worker).active; }
  std::uint64_t clock(int worker) const { return of(worker).clock; }
  std::uint64_t closed() const;  // the smallest clock of an active worker
  std::uint64_t version() const { return version_; }
  std::span<const Push> waiting() const { return waiting_; }
  bool is_waiting(int worker) const;
  // Whether it has read and not pushed since, and what it has read.
  bool is_computing(int worker) const { return of(worker).computing; }
  std::span<const float> read_by(int worker) const { return of(worker).read; }
  std::span<float> read_by(int worker) { return of(worker).read; }
  // How far the weights would be from those that any worker computes on, if waiting push i were
  // applied: the largest difference of an element, infinity if one is no number.
  double distance_after(std::size_t i) const;

  // The first weights: written in place, then announced.
  std::span<float> weights() { return weights_; }
  std::span<const float> weights() const { return weights_; }
  void have_weights();
  bool has_weights() const { return has_weights_; }

  // The gradient's memory must stay until until_applied() says that it is used no more.
  void arrived(const Push& push);
  Task<> until_applied(int worker);

  // Waits for the gate, then returns what the worker is to be sent. Where the weights may change
  // while they are being sent, that is a copy in `room`, which may be the memory of the worker's
  // last push.
  Task<std::span<const float>> read(int worker, std::span<float> room);

  // The same where workers are told differences: leaves in `room` what the weights are ahead of
  // read_by(worker). What the worker is told of that must be added there.
  Task<> read_difference(int worker, std::span<float> room);

  // The worker will push no more; what it has pushed still counts.
  void leave(int worker);
  // The memory of the worker's gradients goes away: a push of it that still waits is dropped.
  void forget(int worker);

  // Applies what arrives, for as long as it runs. What has arrived at the same time is seen
  // together.
  Task<> keep_up();
  // Rings when anything has changed.
  Bell& changed() { return changed_; }

  void follow(Follower follower) { follower_ = std::move(follower); }

  // Of a copy that follows another: does what the other's witness has seen. The pushes' own
  // gradients are not looked at.
  void replay(const Update& update);
  void replay_read(int worker);
  void set_witness(Witness& witness) { witness_ = &witness; }
  // As it is without the gradients that still wait. Weights and optimizer are good for any number of
  // workers; the clocks of these are not.
  void visit_state(State state);

 private:
  struct Worker {
    bool active = true;
    bool computing = false;
    std::uint64_t clock = 0;
    const float* copy = nullptr;     // where its last push has left the weights,
    std::uint64_t copy_version = 0;  // and of which version
    std::vector<float> read;         // what it was told, where somebody wants to know
  };

  Worker& of(int worker) { return workers_[static_cast<std::size_t>(worker)]; }
  const Worker& of(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }
  Task<> admit(int worker);  // to read, when the gate allows
  void keep_read(int worker);
  void settle();
  void apply_chosen();
  void drop_late();
  // Makes of a gradient what the rule for stale ones says; returns the factor for the learning
  // rate.
  double correct(const Push& push, std::span<float> gradient) const;

  const Gate& gate_;
  StalenessRule staleness_;
  ServerReport& report_;
  bool copy_reads_;
  bool keep_reads_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<float> weights_;
  bool has_weights_ = false;
  std::uint64_t version_ = 0;
  std::vector<Worker> workers_;
  std::vector<Push> waiting_;  // in the order of arrival
  std::vector<std::size_t> chosen_;
  std::vector<Push> merged_;
  Bell arrivals_;
  Bell changed_;
  Follower follower_;
  Witness* witness_ = nullptr;
};

}  // namespace starling
