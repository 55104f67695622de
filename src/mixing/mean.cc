// mean: w_i <- w_i + 2 step sum_j W_ij (w_j - w_i), where W are the graph's weights (Metropolis's
// where all edges go both ways, else equal ones). A step of 1/2 is the plain or weighted
// mean; a ring window, groups, one peer or all together then have exchanges of their own, which send
// less.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "exchange/allreduce.h"
#include "exchange/neighbours.h"
#include "exchange/pairwise.h"
#include "math/vector_math.h"
#include "mixing/mixing.h"
#include "topology/mixing.h"

namespace starling {

namespace {

class MeanMixing : public Mixing {
  using enum GraphSettings::Kind;

 public:
  MeanMixing(const MixingSettings& settings, Group group) : Mixing(group), settings_(settings) {
    GraphSettings& graph = settings_.graph;
    if (graph.repeats()) {
      times_ = std::exchange(graph.passes, 1);
      graph.passes_mean = GraphSettings::Passes::window;
    }
    if (!has_exchange_of_its_own()) {
      neighbours_.emplace(graph, group.rank());
    } else if (graph.in_groups()) {
      groups_ = own_groups();
    }
  }

  Task<> start(std::span<const float>, State past) override {
    visit_state(past);
    co_return;
  }

  Task<> mix(std::span<float> weights, std::uint64_t round) override {
    ++report_.rounds;
    for (int i = 0; i < times_; ++i) co_await mix_once(weights, round);
  }

 private:
  Task<> mix_once(std::span<float> weights, std::uint64_t round) {
    for (std::size_t i = 0; i < models_in(round); ++i) report_.mixed(0);
    const GraphSettings::Kind graph = settings_.graph.kind;
    if (!has_exchange_of_its_own()) {
      co_await with_neighbours(weights, round);
    } else if (!groups_.empty()) {
      co_await mean_of_all(groups_[round % groups_.size()], kMixingChannel, weights);
    } else if (graph == window) {
      co_await pairwise_average(group_, kMixingChannel, weights, settings_.graph.passes);
    } else if (graph == exponential) {
      co_await exponential_average(group_, kMixingChannel, weights, round);
    } else if (graph == mesh) {
      co_await mean_of_all(group_, kMixingChannel, weights);
    } else {  // star: through the centre
      co_await allreduce(naive_allreduce, group_, kMixingChannel, weights, Reduction::mean);
    }
  }

  bool has_exchange_of_its_own() const {
    const GraphSettings::Kind graph = settings_.graph.kind;
    return settings_.step == 0.5 &&
           (graph == window || graph == exponential || graph == mesh || graph == star);
  }

  // The group that this worker is in, by round.
  std::vector<Group> own_groups() const {
    const int size = group_.size(), members = std::min(settings_.graph.passes + 1, size);
    std::vector<Group> own;
    for (std::uint64_t round = 0; round < dealing_rounds(size, members); ++round) {
      for (const std::vector<int>& places : dealt_groups(size, members, round)) {
        if (std::ranges::count(places, group_.rank()) > 0) own.push_back(group_.some(places));
      }
    }
    return own;
  }

  // How many others' models come into this worker's in a round.
  std::size_t models_in(std::uint64_t round) const {
    if (neighbours_) return neighbours_->hears(round).size();
    if (!groups_.empty())
      return static_cast<std::size_t>(groups_[round % groups_.size()].size()) - 1;
    const GraphSettings::Kind graph = settings_.graph.kind;
    const int others = group_.size() - 1;
    const int heard = graph == window ? settings_.graph.passes : graph == exponential ? 1 : others;
    return static_cast<std::size_t>(std::min(heard, others));
  }

  Task<> with_neighbours(std::span<float> weights, std::uint64_t round) {
    const std::span<const int> ranks = neighbours_->hears(round);
    const std::span<const double> shares = neighbours_->weights(round);
    heard_.clear();
    double others = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const double weight = 2 * settings_.step * shares[i];
      heard_.push_back({ranks[i], static_cast<float>(weight)});
      others += weight;
    }
    co_await weighted_sum(group_, kMixingChannel, weights, static_cast<float>(1 - others),
                          neighbours_->tells(round), heard_);
  }

  MixingSettings settings_;
  int times_ = 1;              // it mixes in a round
  std::vector<Group> groups_;  // by round, where passes mean groups
  std::optional<Neighbourhood> neighbours_;
  std::vector<Heard> heard_;  // in the round that is under way
};

}  // namespace

std::unique_ptr<Mixing> make_mean_mixing(const MixingSettings& settings, Group group) {
  return std::make_unique<MeanMixing>(settings, group);
}

}  // namespace starling
