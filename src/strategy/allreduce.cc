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
  CodedAllreduceStrategy(const CodecSettings& codec, int seed, Group group, std::vector<Fold> folds)
      : Strategy(group),
        codec_(codec),
        seed_(static_cast<std::uint64_t>(seed)),
        folds_(std::move(folds)) {}

  Task<> after_backward(Bucket bucket) override {
    return exchange_of(bucket).mean(bucket_channel(bucket.index), bucket.gradients);
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
  CodedAllreduce& exchange_of(const Bucket& bucket) {
    const auto found = exchanges_.find(bucket.index);
    if (found != exchanges_.end()) return found->second;
    const auto index = static_cast<std::uint64_t>(bucket.index);
    const CodecStream stream{Random{seed_, index}.bits(), folds_in(folds_, bucket.range)};
    return exchanges_.try_emplace(bucket.index, group_, codec_, bucket.range.size(), stream)
        .first->second;
  }

  CodecSettings codec_;
  std::uint64_t seed_;
  std::vector<Fold> folds_;
  std::map<int, CodedAllreduce> exchanges_;
};

}  // namespace

std::unique_ptr<Strategy> make_allreduce(const Settings& settings, Group group, Workload workload) {
  const CodecSettings& codec = settings.mix.codec;
  if (codec.kind == CodecSettings::Kind::raw) {
    return std::make_unique<AllreduceStrategy>(find_allreduce(settings.exchange), group);
  }
  return std::make_unique<CodedAllreduceStrategy>(codec, settings.seed, group,
                                                  std::move(workload.folds));
}

}  // namespace starling
