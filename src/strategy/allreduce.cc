// allreduce: every step the gradients are averaged over all workers, so all replicas stay equal.
// The mean is that of Horovod and PyTorch DDP; which algorithm forms it is the setting `exchange`.
#include "exchange/allreduce.h"

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

}  // namespace

std::unique_ptr<Strategy> make_allreduce(const Settings& settings, Group group, Workload) {
  return std::make_unique<AllreduceStrategy>(find_allreduce(settings.exchange), group);
}

}  // namespace starling
