// A strategy is what a worker does with its replica around a step. Central strategies act on
// gradients between the backward pass and the update; decentral ones act on weights after it. The
// step (strategy/step.h) calls its hooks, in the built-in trainer, a user's own loop and the
// simulator alike.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/range.h"
#include "mixing/mixing.h"
#include "runtime/group.h"
#include "server/factors.h"
#include "server/server_report.h"
#include "strategy/batch_ledger.h"
#include "strategy/groups.h"
#include "strategy/settings.h"

namespace starling {

class Progress;
class ServerEstate;

// A model as the strategies see it: two flat spans that alias the model's own tensors. The weights
// may be longer than the gradients: behind the parameters stand buffers that are averaged but not
// trained.
struct Replica {
  std::span<float> weights;
  std::span<float> gradients;
};

// A stretch of the gradients that is complete before the rest of the backward pass is. The weights
// that belong to it are not needed any more in this step.
struct Bucket {
  int index = 0;
  Range range;  // where it stands in the gradients
  std::span<float> gradients;
  std::span<float> weights;
  // What the gradient is the product of, where the bucket is a dense layer's matrix.
  std::optional<Factors> factors = std::nullopt;
  Range parameters = {};  // which it holds
};

// What is known beforehand of a run. A user's own loop needs neither batches nor epochs.
struct Workload {
  std::vector<Range> buckets;
  std::uint64_t batches = 0;  // of all workers together
  std::uint64_t batches_per_epoch = 1;
  std::uint64_t own_samples = 1;     // that only this worker has
  std::vector<Fold> folds = {};      // the matrices among the weights, where that is known
  BatchLedger left = BatchLedger();  // of the batches: all, or what a run that is resumed has left
  State past = {};  // where the worker goes on; what it is restored from lives until it has begun
  // In an elastic job: the generation, and what a server beside the worker leaves to later ones.
  std::uint64_t generation = 1;
  ServerEstate* blocks = nullptr;
};

// A wish to stop that reaches all workers in the same step.
struct StopVote {
  bool wanted = false;   // by this worker
  bool decided = false;  // for all
};

class Strategy {
 public:
  // Of the workers, with the number GroupNumber::training.
  explicit Strategy(Group group) : group_(group) {}
  virtual ~Strategy() = default;

  // Agrees on the first weights: rank 0's. If all have the same already, next to nothing is sent.
  // With a past the replica has its weights already, and each worker goes on with its own.
  virtual Task<> start(Replica replica, State past = {});
  // In place of start(), where a new generation goes on with weights that it has: where all must be
  // alike they are.
  virtual Task<> resume(Replica replica);
  // Called once a step for every bucket, for several at the same time, while the backward pass goes
  // on.
  virtual Task<> after_backward(Bucket bucket);
  // Called once a step, when the optimizer has changed the weights.
  virtual Task<> after_update(Replica replica);
  // Agrees on the final model: the mean of all.
  virtual Task<> finish(Replica replica);

  // The generation is over: what the next one needs of it is kept (Workload::blocks).
  virtual void close() {}

  // Between two steps: until nothing is under way that visit_state() could not tell.
  virtual Task<> pause();
  virtual void visit_state(State) {}
  // What this worker would bring to finish(), and how much of it counts.
  virtual std::span<const float> final_weights(std::span<const float> own) const { return own; }
  virtual float final_share() const { return 1; }
  // Lets servers that have processes of their own keep their state, as of this step.
  virtual Task<> save_servers(std::uint64_t step);

  // For a worker that has done something else for a while: takes in what the others have done
  // meanwhile.
  virtual Task<> catch_up(Replica replica);

  // How much of the learning rate the step that comes takes (strategy/lr_schedule.h), for who
  // updates the weights elsewhere. The worker's own optimizer is its owner's affair.
  virtual void set_rate(double) {}

  // Whether workers go step by step together and to the end, so that they can do other things
  // together as well.
  virtual bool in_step() const { return true; }
  // Whether the weights are updated elsewhere, so that the worker's own optimizer has nothing to
  // do.
  virtual bool updates_weights() const { return false; }
  // Whether this worker does nothing in the step that comes.
  virtual bool rests() const { return false; }
  // How far everybody is, where nobody waits for anybody: by this a dealer deals out batches.
  virtual Progress* progress() { return nullptr; }
  // What carries a dealer's wish to stop to all, where they go step by step but not to the end.
  virtual StopVote* stop_vote() { return nullptr; }
  // What this worker has seen of others' models, where weights are mixed.
  virtual const MixReport* mix_report() const { return nullptr; }
  // What the servers have seen, where there are any and once they are done.
  virtual std::optional<ServerReport> server_report() const { return std::nullopt; }

 protected:
  // Whether all have the same weights to the bit. Next to nothing is sent.
  Task<bool> all_alike(std::span<const float> weights);

  Channel weights_channel() const { return {kWeightsChannel, Purpose::weights}; }
  Channel bucket_channel(int index) const {
    return {kFirstBucketChannel + static_cast<std::uint32_t>(index), Purpose::gradients};
  }

  Group group_;

 private:
  static constexpr std::uint32_t kWeightsChannel = 0;
  static constexpr std::uint32_t kFirstBucketChannel = 1;
};

// The channels that the training loop uses beside the strategy's, in GroupNumber::control.
inline constexpr Channel kControlChannel{0, Purpose::control};
inline constexpr Channel kEvaluationChannel{1, Purpose::evaluation};
// Of those who have slices of one copy of the model, in GroupNumber::copy.
inline constexpr Channel kCopyChannel{0, Purpose::control, "talk within a copy of the model"};
// And those of an own loop.
inline constexpr Channel kCollectivesChannel{2, Purpose::control};
inline constexpr Channel kHasDataChannel{3, Purpose::control, "counting who has data left"};
inline constexpr Channel kFinishChannel{4, Purpose::control, "hearing who has finished"};

// For those who train the same slice of the model (strategy/grid.h), among the workers, which are the
// first ranks of the Comm, and its servers.
std::unique_ptr<Strategy> make_strategy(const Settings& settings, Comm& comm,
                                        Workload workload = {});

// One function a strategy, each in the file of its name.
using MakeStrategy = std::unique_ptr<Strategy>(const Settings& settings, Group group,
                                               Workload workload);
MakeStrategy make_allreduce;
MakeStrategy make_mix;
MakeStrategy make_single;
MakeStrategy make_server_strategy;
MakeStrategy make_ring_leader;

}  // namespace starling
