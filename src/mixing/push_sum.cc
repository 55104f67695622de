// push-sum (SGP; M. Assran et al., 2019): on a directed graph nobody knows how often it is heard
// by comparison with others, so equal weights do not add up to a mean. Every worker therefore sends
// even parts of its weights *and* of a number that begins as 1 to those it tells, keeps one part,
// and adds what comes; its weights divided by its number tend to the mean of all.
#include <algorithm>
#include <vector>

#include "exchange/move.h"
#include "exchange/vector_math.h"
#include "mixing/mixing.h"
#include "runtime/all.h"

namespace starling {

namespace {

class PushSumMixing : public Mixing {
 public:
  PushSumMixing(const MixingSettings& settings, Comm& comm)
      : Mixing(comm), graph_(make_graph(settings.graph)) {}

  Task<> start(std::span<const float>) override { co_return; }

  Task<> mix(std::span<float> weights, std::uint64_t round) override {
    ++report_.rounds;
    const std::span<const int> told = graph_.tells(comm_.rank(), round);
    const std::span<const int> heard = graph_.hears(comm_.rank(), round);
    part_ = number_ / static_cast<float>(told.size() + 1);
    scale(weights, part_);  // the part that everybody gets
    auto memory = comm_.lend<float>(weights.size() * heard.size());
    const auto model = [&](std::size_t i) {
      return memory.span().subspan(i * weights.size(), weights.size());
    };
    parts_.assign(heard.size(), 0);
    std::vector<Task<>> moves;
    for (int rank : told) moves.push_back(tell(rank, weights));
    for (std::size_t i = 0; i < heard.size(); ++i) {
      moves.push_back(hear(heard[i], parts_[i], model(i)));
    }
    co_await all(std::move(moves));
    number_ = part_;
    for (std::size_t i = 0; i < heard.size(); ++i) {
      add(weights, model(i));
      number_ += parts_[i];
      report_.mixed(0);
    }
    scale(weights, 1 / number_);
  }

  float final_share() const override { return number_; }

 private:
  Task<> tell(int rank, std::span<const float> weights) {
    co_await comm_.send(rank, kMixingChannel, object_bytes(part_));
    co_await move(comm_, kMixingChannel, Outgoing{rank, weights});
  }
  Task<> hear(int rank, float& part, std::span<float> into) {
    co_await comm_.receive(rank, kMixingChannel, object_bytes(part));
    co_await move(comm_, kMixingChannel, Incoming{rank, into});
  }

  Graph graph_;
  float number_ = 1;
  float part_ = 0;
  std::vector<float> parts_;
};

}  // namespace

std::unique_ptr<Mixing> make_push_sum_mixing(const MixingSettings& settings, Comm& comm) {
  return std::make_unique<PushSumMixing>(settings, comm);
}

}  // namespace starling
