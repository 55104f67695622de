// sampled (FedAvg; B. McMahan et al., 2017): in every round a share of the workers, drawn by the
// seed, trains on its own samples and sends its weights to the centre, which takes their mean,
// weighted by how many samples each has, and sends it to all.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "exchange/collectives.h"
#include "exchange/move.h"
#include "exchange/neighbours.h"
#include "mixing/mixing.h"

namespace starling {

namespace {

class SampledMixing : public Mixing {
 public:
  SampledMixing(const MixingSettings& settings, Group group, std::uint64_t samples)
      : Mixing(group),
        seed_(settings.seed),
        clients_(static_cast<std::size_t>(
            std::max(1.0, std::round(settings.client_share * group.size())))),
        samples_(static_cast<std::size_t>(group.size())) {
    samples_[static_cast<std::size_t>(group.rank())] = samples;
  }

  Task<> start(std::span<const float>, State past) override {
    visit_state(past);
    const Vector all = std::as_writable_bytes(std::span(samples_));
    co_await all_gather(group_, kMixingChannel, all, even_pieces(all, group_.size()));
  }

  bool takes_part(std::uint64_t round) const override {
    return std::ranges::binary_search(clients_of(round), group_.rank());
  }

  Task<> mix(std::span<float> weights, std::uint64_t round) override {
    ++report_.rounds;
    constexpr int kCentre = 0;
    const std::vector<int> clients = clients_of(round);
    const bool sent = std::ranges::binary_search(clients, group_.rank());
    double all_samples = 0;
    for (int client : clients) all_samples += share_of(client);
    if (group_.rank() == kCentre) {
      std::vector<Heard> heard;
      for (int client : clients) {
        if (client == kCentre) continue;
        heard.push_back({client, static_cast<float>(share_of(client) / all_samples)});
        report_.mixed(0);
      }
      const double own = sent ? share_of(kCentre) / all_samples : 0;
      co_await weighted_sum(group_, kMixingChannel, weights, static_cast<float>(own), {}, heard);
    } else if (sent) {
      co_await move(group_, kMixingChannel, Outgoing{kCentre, weights});
    }
    for (int rank = 1; rank < group_.size(); ++rank) {
      if (group_.rank() == kCentre) {
        co_await move(group_, kMixingChannel, Outgoing{rank, weights});
      } else if (group_.rank() == rank) {
        co_await move(group_, kMixingChannel, Incoming{kCentre, weights});
      }
    }
  }

 private:
  // A worker without samples would make all weights 0 / 0; it counts as if it had one.
  double share_of(int rank) const {
    const std::uint64_t samples = samples_[static_cast<std::size_t>(rank)];
    return static_cast<double>(std::max<std::uint64_t>(1, samples));
  }

  // The same on all workers, in the order of ranks.
  std::vector<int> clients_of(std::uint64_t round) const {
    std::vector<int> ranks(static_cast<std::size_t>(group_.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    Random{seed_, round, 0xfeda}.shuffle(std::span<int>(ranks));
    ranks.resize(clients_);
    std::ranges::sort(ranks);
    return ranks;
  }

  std::uint64_t seed_;
  std::size_t clients_;
  std::vector<std::uint64_t> samples_;  // of every worker
};

}  // namespace

std::unique_ptr<Mixing> make_sampled_mixing(const MixingSettings& settings, Group group,
                                            std::uint64_t samples) {
  return std::make_unique<SampledMixing>(settings, group, samples);
}

}  // namespace starling
