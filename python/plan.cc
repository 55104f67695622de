// Trainings and exchanges in the simulator, for notebooks.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/units.h"
#include "bindings.h"
#include "exchange/allreduce.h"
#include "exchange/pairwise.h"
#include "plan/exchange_trace.h"
#include "plan/simulated_training.h"
#include "strategy/server_plan.h"
#include "strategy/systems.h"

namespace starling {

namespace {

constexpr Channel kTraceChannel{1, Purpose::weights};

Settings simulated_settings(const std::string& system, const std::string& toml, int workers) {
  Settings settings;
  if (!system.empty()) read_settings(find_system(system).toml, "system " + system, settings);
  read_settings(toml, "simulate", settings);
  settings.workers = workers;
  check_settings(settings);
  if (settings.parallel.slices() > 1) {
    throw Error("simulate knows no models that are cut into slices", "use a data-parallel system");
  }
  return settings;
}

// How far the mean of all workers' final models is from what they were to find: the root of the mean
// square over weights.
double error_of(const std::vector<std::vector<float>>& models) {
  double squares = 0;
  for (std::size_t i = 0; i < models[0].size(); ++i) {
    double mean = 0;
    for (const auto& model : models) mean += model[i] / static_cast<double>(models.size());
    squares += std::pow(mean - static_cast<double>(simulated_target(i)), 2);
  }
  return std::sqrt(squares / static_cast<double>(models[0].size()));
}

py::dict simulated(const SimulatedTraining& training) {
  SimulatedResult result;
  {
    const py::gil_scoped_release others_may_run;
    result = simulate(training);
  }
  for (const std::exception_ptr& error : result.errors) {
    if (error) std::rethrow_exception(error);
  }
  const auto workers = static_cast<std::size_t>(training.settings.workers);
  const auto seconds = [](Time time) { return std::chrono::duration<double>(time).count(); };
  const auto sent = std::span(result.wire_bytes_sent);
  py::dict row;
  row["workers"] = workers;
  row["servers"] = server_processes(training.settings);
  row["batches"] = result.all_batches();
  row["seconds"] = seconds(result.time - result.start);
  row["batches_per_second"] = result.batches_per_second();
  row["bytes_sent"] = std::accumulate(sent.begin(), sent.end(), std::uint64_t{0});
  row["most_bytes_sent"] = std::ranges::max(sent);
  row["error"] = error_of(result.weights);
  return row;
}

using Iterations = std::vector<std::vector<std::vector<std::optional<float>>>>;

Iterations shown(const ExchangeTrace& trace, const Visibility* visible) {
  Iterations iterations;
  for (std::size_t t = 0; t < trace.iterations.size(); ++t) {
    auto& rows = iterations.emplace_back();
    for (std::size_t w = 0; w < trace.iterations[t].values.size(); ++w) {
      auto& row = rows.emplace_back();
      const auto& values = trace.iterations[t].values[w];
      for (std::size_t c = 0; c < values.size(); ++c) {
        const bool hidden = visible != nullptr && !(*visible)[t][w][c];
        row.push_back(hidden ? std::nullopt : std::optional(values[c]));
      }
    }
  }
  return iterations;
}

}  // namespace

void add_plan(py::module_& module) {
  module.def(
      "simulate",
      [](const std::string& system, const std::string& toml, int workers,
         const std::string& bandwidth, const std::string& latency, const std::string& compute,
         double jitter, std::size_t elements, int buckets, std::uint64_t steps, double noise,
         std::uint64_t seed) {
        SimulatedTraining training;
        training.settings = simulated_settings(system, toml, workers);
        training.network.standard = {parse_rate(bandwidth), parse_duration(latency)};
        training.compute = parse_duration(compute);
        training.jitter = jitter;
        training.elements = elements;
        training.buckets = buckets;
        training.batches = steps * static_cast<std::uint64_t>(workers);
        training.batches_per_epoch = training.batches;
        training.noise = noise;
        training.seed = seed;
        return simulated(training);
      },
      py::arg("system"), py::arg("toml"), py::arg("workers"), py::arg("bandwidth"),
      py::arg("latency"), py::arg("compute"), py::arg("jitter"), py::arg("elements"),
      py::arg("buckets"), py::arg("steps"), py::arg("noise"), py::arg("seed"));

  // By iteration, worker and cell; nothing where a partial sum has been sent on.
  module.def(
      "trace",
      [](const std::string& algorithm, const Rows& start, int rounds, int passes) {
        if (algorithm == "pairwise") {
          return shown(trace_rounds(start, rounds,
                                    [passes](Comm& comm, std::span<float> values) {
                                      return pairwise_average(comm, kTraceChannel, values, passes);
                                    }),
                       nullptr);
        }
        const Exchange exchange = [allreduce = find_allreduce(algorithm)](Comm& comm,
                                                                          std::span<float> values) {
          return allreduce(comm, kTraceChannel, values, Reduction::sum);
        };
        const Visibility visible = visible_cells(start, exchange);
        return shown(trace(start, exchange), &visible);
      },
      py::arg("algorithm"), py::arg("start"), py::arg("rounds"), py::arg("passes"));

  py::list all;
  for (const System& system : named_systems()) {
    py::dict row;
    row["name"] = system.name;
    row["title"] = system.title;
    row["parallelism"] = system.parallelism;
    row["optimization"] = system.optimization;
    row["schedule"] = system.schedule;
    row["exchange"] = system.exchange;
    row["topology"] = system.topology;
    row["summary"] = system.summary;
    all.append(row);
  }
  module.attr("SYSTEMS") = all;
}

}  // namespace starling
