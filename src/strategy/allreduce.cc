// allreduce: every step the gradients are averaged over all workers, so all replicas stay equal.
// The mean is that of Horovod and PyTorch DDP; which algorithm forms it is the setting `exchange`.
//
// With a codec, codes of the gradients go instead (exchange/coded_allreduce.h); what they leave out
// of a bucket is added to the next step's.
#include "exchange/allreduce.h"

#include <map>

#include "base/random.h"
#include "exchange/coded_allreduce.h"
#include "strategy/strategy.h"

namespace starling {

namespace {

class AllreduceStrategy : public Strategy {
 public:
  AllreduceStrategy(Allreduce* algorithm, Group group) : Strategy(group), algorithm_(algorithm) {}

  Task<> after_backward(Bucket bucket) override {
    return allreduce(algorithm_, group_, bucket_channel(bucket.index), bucket.gradients,
                     Reduction::mean);
  }

 private:
  Allreduce* algorithm_;
};

class CodedAllreduceStrategy : public Strategy {
 public:
  CodedAllreduceStrategy(const CodecSettings& codec, int seed, Group group, Workload workload)
      : Strategy(group),
        codec_(codec),
        seed_(static_cast<std::uint64_t>(seed)),
        buckets_(std::move(workload.buckets)),
        folds_(std::move(workload.folds)) {}

  Task<> start(Replica replica, State past) override {
    if (past.restores_all()) visit_state(past);
    co_await Strategy::start(replica, past);
  }

  void visit_state(State state) override {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      exchange_of(static_cast<int>(i), buckets_[i]).visit_state(state.in(i));
    }
  }

  Task<> after_backward(Bucket bucket) override {
    return exchange_of(bucket.index, bucket.range)
        .mean(bucket_channel(bucket.index), bucket.gradients);
  }

  // Whole weights would weigh more than many steps of codes, and are the same already unless there
  // are buffers among them.
  Task<> finish(Replica replica) override {
    Task<bool> looking = all_alike(replica.weights);
    const bool alike = co_await looking;
    if (!alike) co_await Strategy::finish(replica);
  }

 private:
  // Each bucket is a stream of its own, and the same in every step.
  CodedAllreduce& exchange_of(int bucket, Range range) {
    const auto found = exchanges_.find(bucket);
    if (found != exchanges_.end()) return found->second;
    const auto index = static_cast<std::uint64_t>(bucket);
    const CodecStream stream{Random{seed_, index}.bits(), folds_in(folds_, range)};
    return exchanges_.try_emplace(bucket, group_, codec_, range.size(), stream).first->second;
  }

  CodecSettings codec_;
  std::uint64_t seed_;
  std::vector<Range> buckets_;
  std::vector<Fold> folds_;
  std::map<int, CodedAllreduce> exchanges_;
};

}  // namespace

std::unique_ptr<Strategy> make_allreduce(const Settings& settings, Group group, Workload workload) {
  const CodecSettings& codec = settings.mix.codec;
  if (codec.kind == CodecSettings::Kind::raw) {
    return std::make_unique<AllreduceStrategy>(find_allreduce(settings.exchange), group);
  }
  return std::make_unique<CodedAllreduceStrategy>(codec, settings.seed, group, std::move(workload));
}

}  // namespace starling
