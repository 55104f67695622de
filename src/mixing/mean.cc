// mean: w_i <- w_i + 2 step sum_j W_ij (w_j - w_i), where W are the graph's weights (Metropolis's
// where everybody who hears is heard, else equal ones). A step of 1/2 is the plain or weighted
// mean; a ring window, one peer or all together then have exchanges of their own, which send less.
#include <algorithm>
#include <optional>
#include <vector>

#include "exchange/allreduce.h"
#include "exchange/move.h"
#include "exchange/pairwise.h"
#include "exchange/vector_math.h"
#include "mixing/mixing.h"
#include "runtime/all.h"

namespace starling {

namespace {

class MeanMixing : public Mixing {
 public:
  MeanMixing(const MixingSettings& settings, Comm& comm) : Mixing(comm), settings_(settings) {
    if (has_exchange_of_its_own()) return;
    graph_ = make_graph(settings.graph);
    for (std::uint64_t round = 0; round < graph_->rounds(); ++round) {
      const Matrix matrix = mixing_weights(*graph_, round);
      weights_of_.push_back(matrix[static_cast<std::size_t>(comm.rank())]);
    }
  }

  Task<> start(std::span<const float>) override { co_return; }

  Task<> mix(std::span<float> weights, std::uint64_t round) override {
    ++report_.rounds;
    report_.mixed(0);
    const std::string& graph = settings_.graph.name;
    if (!has_exchange_of_its_own()) {
      co_await with_neighbours(weights, round);
    } else if (graph == "window") {
      co_await pairwise_average(comm_, kMixingChannel, weights, settings_.graph.passes);
    } else if (graph == "exponential") {
      co_await exponential_average(comm_, kMixingChannel, weights, round);
    } else if (graph == "mesh") {
      co_await mean_of_all(comm_, kMixingChannel, weights);
    } else {  // star: through the centre
      co_await naive_allreduce(comm_, kMixingChannel, weights);
      scale(weights, 1.0f / static_cast<float>(comm_.size()));
    }
  }

 private:
  bool has_exchange_of_its_own() const {
    const std::string& graph = settings_.graph.name;
    return settings_.step == 0.5 &&
           (graph == "window" || graph == "exponential" || graph == "mesh" || graph == "star");
  }

  Task<> with_neighbours(std::span<float> weights, std::uint64_t round) {
    const std::span<const int> heard = graph_->hears(comm_.rank(), round);
    auto memory = comm_.lend<float>(weights.size() * heard.size());
    const auto model = [&](std::size_t i) {
      return memory.span().subspan(i * weights.size(), weights.size());
    };
    std::vector<Task<>> moves;
    for (int rank : graph_->tells(comm_.rank(), round)) {
      moves.push_back(move(comm_, kMixingChannel, Outgoing{rank, weights}));
    }
    for (std::size_t i = 0; i < heard.size(); ++i) {
      moves.push_back(move(comm_, kMixingChannel, Incoming{heard[i], model(i)}));
    }
    co_await all(std::move(moves));
    auto own = comm_.lend<float>(weights.size());
    std::ranges::copy(weights, own.span().begin());
    const std::vector<double>& row = weights_of_[round % graph_->rounds()];
    for (std::size_t i = 0; i < heard.size(); ++i) {
      const double weight = 2 * settings_.step * row[static_cast<std::size_t>(heard[i])];
      subtract_scaled(weights, own.span(), static_cast<float>(weight));
      subtract_scaled(weights, model(i), static_cast<float>(-weight));
    }
  }

  MixingSettings settings_;
  std::optional<Graph> graph_;
  std::vector<std::vector<double>> weights_of_;  // every rank, in each round
};

}  // namespace

std::unique_ptr<Mixing> make_mean_mixing(const MixingSettings& settings, Comm& comm) {
  return std::make_unique<MeanMixing>(settings, comm);
}

}  // namespace starling
