#include "plan/exchange_trace.h"

#include <utility>

#include "sim/cluster.h"

namespace starling {

ExchangeTrace trace(Rows vectors, const Exchange& exchange) {
  Cluster cluster(static_cast<int>(vectors.size()), {{.latency = std::chrono::seconds(1)}, {}});
  ExchangeTrace result;
  result.iterations.push_back({vectors, {}});
  decltype(ExchangeTrace::Iteration::sent) sent;
  cluster.observe([&](int from, int, ConstBytes bytes) {
    const auto worker = static_cast<std::size_t>(from);
    const auto* first = reinterpret_cast<const float*>(bytes.data());
    // Partial sums that are sent from scratch memory belong to no cell.
    const std::ptrdiff_t begin = first - vectors[worker].data();
    if (begin < 0 || begin >= static_cast<std::ptrdiff_t>(vectors[worker].size())) return;
    for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
      sent.emplace(worker, static_cast<std::size_t>(begin) + i);
    }
  });
  const auto snapshot = [&] {
    if (cluster.loop().now() > Time(0))
      result.iterations.push_back({vectors, std::exchange(sent, {})});
  };
  cluster.loop().before_time_moves(snapshot);
  cluster.run(
      [&](Comm& comm) { return exchange(comm, vectors[static_cast<std::size_t>(comm.rank())]); });
  snapshot();
  return result;
}

ExchangeTrace trace_rounds(const Rows& start, int rounds, const Exchange& exchange) {
  ExchangeTrace result;
  result.iterations.push_back({start, {}});
  for (int round = 0; round < rounds; ++round) {
    result.iterations.push_back(
        {trace(result.iterations.back().values, exchange).iterations.back().values, {}});
  }
  return result;
}

ExchangeTrace trace_shares(int workers, int rounds, const Exchange& exchange) {
  const auto n = static_cast<std::size_t>(workers);
  Rows units(n, std::vector<float>(n, 0.0f));
  for (std::size_t i = 0; i < n; ++i) units[i][i] = 1;
  return trace_rounds(units, rounds, exchange);
}

// The same exchange, run on ones, counts how many workers a cell is the sum of.
Visibility visible_cells(const Rows& start, const Exchange& exchange) {
  const auto workers = start.size();
  Rows ones(workers, std::vector<float>(start[0].size(), 1.0f));
  const ExchangeTrace counts = trace(ones, exchange);
  std::vector<std::vector<bool>> shown(workers, std::vector<bool>(start[0].size(), true));
  Visibility all = {shown};
  for (std::size_t t = 1; t < counts.iterations.size(); ++t) {
    for (std::size_t w = 0; w < workers; ++w) {
      for (std::size_t c = 0; c < start[0].size(); ++c) {
        const float before = counts.iterations[t - 1].values[w][c];
        const float now = counts.iterations[t].values[w][c];
        if (now != before) {
          shown[w][c] = true;
        } else if (counts.iterations[t].sent.contains({w, c}) &&
                   now < static_cast<float>(workers)) {
          shown[w][c] = false;
        }
      }
    }
    all.push_back(shown);
  }
  return all;
}

}  // namespace starling
