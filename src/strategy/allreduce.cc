// allreduce: every step the gradients are averaged over all workers, so all replicas stay equal.
// The mean is that of Horovod and PyTorch DDP; which algorithm forms it is the setting `exchange`.
#include "exchange/allreduce.h"

#include "math/vector_math.h"
#include "strategy/strategy.h"

namespace starling {

namespace {

class AllreduceStrategy : public Strategy {
 public:
  AllreduceStrategy(Allreduce* allreduce, Comm& comm) : Strategy(comm), allreduce_(allreduce) {}

  Task<> after_backward(Bucket bucket) override {
    co_await allreduce_(comm_, bucket_channel(bucket.index), bucket.gradients);
    scale(bucket.gradients, 1.0f / static_cast<float>(comm_.size()));
  }

 private:
  Allreduce* allreduce_;
};

}  // namespace

std::unique_ptr<Strategy> make_allreduce(const Settings& settings, Comm& comm) {
  return std::make_unique<AllreduceStrategy>(find_allreduce(settings.exchange), comm);
}

}  // namespace starling
