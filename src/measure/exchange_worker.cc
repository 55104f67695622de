#include "measure/exchange_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "exchange/allreduce.h"
#include "exchange/collectives.h"
#include "exchange/pairwise.h"
#include "job/session.h"
#include "job/worker_events.h"
#include "net/tcp_loop.h"

namespace starling {

namespace {

constexpr Channel kData{1, Purpose::gradients};
constexpr Channel kControl{0, Purpose::control};

Task<> run_one(Comm& comm, const std::string& algorithm, std::span<float> values) {
  if (algorithm == "pairwise") return pairwise_average(comm, kData, values, 1);
  return find_allreduce(algorithm)(comm, kData, values, Reduction::sum);
}

float first_value(int rank, std::size_t i) {
  return static_cast<float>((rank + static_cast<int>(i % 7)) % 11);
}

void check_result(Comm& comm, const std::string& algorithm, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); i += 997) {
    float expected = 0;
    if (algorithm == "pairwise") {
      expected = (first_value(comm.rank(), i) + first_value(comm.ring(comm.rank() - 1), i)) / 2;
    } else {
      for (int rank = 0; rank < comm.size(); ++rank) expected += first_value(rank, i);
    }
    if (values[i] != expected) {
      throw Error(
          fmt::format("{} gives {} for {} at element {}", algorithm, values[i], expected, i));
    }
  }
}

class ExchangeWorker {
 public:
  explicit ExchangeWorker(const Job& job) : session_(job) {}

  void measure(const std::string& algorithm, std::size_t bytes, double budget_seconds) {
    std::vector<float> values(bytes / sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = first_value(comm().rank(), i);
    run(run_one(comm(), algorithm, values));
    check_result(comm(), algorithm, values);
    // Sums would grow without bound over a thousand rounds, and denormals or infinities are slow.
    std::ranges::fill(values, 0.0f);

    const double warm = time_one(algorithm, values);
    auto rounds =
        static_cast<std::uint64_t>(std::clamp(budget_seconds / std::max(warm, 1e-6), 5.0, 1000.0));
    run(broadcast(comm(), kControl, object_bytes(rounds), 0));
    std::vector<double> times;
    const Time worked = TcpLoop::processor_time();
    for (std::uint64_t i = 0; i < rounds; ++i) times.push_back(time_one(algorithm, values));
    const std::chrono::duration<double> work = TcpLoop::processor_time() - worked;
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    if (comm().rank() == 0) {
      report_event(session_.job(),
                   {{"event", "bench"},
                    {"peer", "starling"},
                    {"algorithm", algorithm},
                    {"workers", comm().size()},
                    {"bytes", bytes},
                    {"iterations", rounds},
                    {"processor_seconds", work.count() / static_cast<double>(rounds)},
                    {"median_seconds", times[times.size() / 2]}});
    }
  }

 private:
  Comm& comm() { return session_.comm(); }
  void run(Task<> task) { session_.run("a benchmark round", std::move(task)); }
  Time now() { return session_.loop().now(); }
  double time_one(const std::string& algorithm, std::span<float> values) {
    run(barrier(comm(), kControl));
    const Time begin = now();
    run(run_one(comm(), algorithm, values));
    return std::chrono::duration<double>(now() - begin).count();
  }

  Session session_;
};

}  // namespace

void time_exchanges(const Job& job, const ExchangeWork& work) {
  ExchangeWorker worker(job);
  for (const std::string& algorithm : work.algorithms) {
    for (std::size_t bytes : work.sizes_bytes) worker.measure(algorithm, bytes, work.seconds);
  }
}

}  // namespace starling
