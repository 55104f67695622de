// What a training came to: the worker that leads tells it to the launcher, the run folder keeps it
// as summary.json, and reports and grids compare it with others'. One list of fields (visit) serves
// both directions of the codec.
//
// In the file, what each rank did stands in lists, workers first and servers behind them; here it
// is a list of ranks. What nobody has told is not there.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/staleness.h"

namespace starling {

inline constexpr const char* kBitsPerCharacter = "bits per character";

struct RankSummary {
  enum class Role { worker, server };
  using Bytes = std::optional<std::uint64_t>;

  Role role = Role::worker;
  std::optional<std::int64_t> rank;
  std::optional<double> accuracy;  // of its own model
  std::optional<std::uint64_t> steps, samples;
  std::optional<double> waited_seconds;   // in exchanges, of which
  std::optional<double> network_seconds;  // it moved and reduced bytes so long itself
  Bytes peak_memory_bytes;                // the most it had at a time, before the last evaluation
  Bytes payload_bytes_sent, wire_bytes_sent, payload_bytes_received, wire_bytes_received;
  Bytes training_bytes_sent;  // on the wire from the first step to the last, without evaluations,
                              // first weights and the final mean
  Bytes kernel_bytes_sent, kernel_bytes_received;  // in a lab: what its own interface has counted

  // What only workers have,
  template <class Self, class Visitor>
  static void visit_work(Self& s, Visitor&& visit) {
    visit("worker_rank", s.rank);
    visit("worker_accuracy", s.accuracy);
    visit("worker_steps", s.steps);
    visit("worker_samples", s.samples);
    visit("waited_seconds", s.waited_seconds);
    visit("network_seconds", s.network_seconds);
    visit("peak_memory_bytes", s.peak_memory_bytes);
  }
  // and what servers have as well.
  template <class Self, class Visitor>
  static void visit_bytes(Self& s, Visitor&& visit) {
    visit("payload_bytes_sent", s.payload_bytes_sent);
    visit("wire_bytes_sent", s.wire_bytes_sent);
    visit("payload_bytes_received", s.payload_bytes_received);
    visit("wire_bytes_received", s.wire_bytes_received);
    visit("training_bytes_sent", s.training_bytes_sent);
    visit("kernel_bytes_sent", s.kernel_bytes_sent);
    visit("kernel_bytes_received", s.kernel_bytes_received);
  }
};

struct StalenessSummary {
  std::optional<double> mean;
  std::optional<std::uint64_t> max;
  std::optional<std::vector<std::uint64_t>> histogram;  // up to the last that is not 0

  StalenessSummary() = default;
  explicit StalenessSummary(const Staleness& staleness);

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    visit("staleness_mean", s.mean);
    visit("staleness_max", s.max);
    visit("staleness_histogram", s.histogram);
  }
};

struct ServersSummary {
  std::optional<std::uint64_t> updates, gradients_applied, gradients_dropped;
  StalenessSummary staleness;

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    visit("updates", s.updates);
    visit("gradients_applied", s.gradients_applied);
    visit("gradients_dropped", s.gradients_dropped);
    StalenessSummary::visit(s.staleness, visit);
  }
};

struct MixingSummary {
  std::optional<std::uint64_t> rounds, skipped, models;
  StalenessSummary staleness;

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    visit("rounds", s.rounds);
    visit("skipped", s.skipped);
    visit("models", s.models);
    StalenessSummary::visit(s.staleness, visit);
  }
};

struct RunSummary {
  // "interrupted" or "failed", and by whom; "left", and others go on; none: it came to its end.
  std::optional<std::string> ended, reason;
  std::optional<std::string> strategy, model, data;
  std::optional<std::string> program;   // of the user's own
  std::optional<std::int64_t> workers;  // that began
  std::optional<std::uint64_t> parameters;
  std::optional<double> accuracy;  // of the final model; none: the run did not end here
  std::optional<double> loss, epochs;
  std::optional<std::string> loss_unit;  // where it is not the mean cross-entropy in nats
  std::optional<std::uint64_t> steps, samples;
  // After how many an evaluation found what the run was to go on until. Where nobody waits for the
  // others, the final model may fall short of it again.
  std::optional<std::uint64_t> goal_step;
  std::optional<double> seconds, train_seconds, samples_per_second, finish_seconds;
  std::optional<ServersSummary> servers;
  std::optional<MixingSummary> mixing;
  std::optional<double> spread;  // between the workers at the end
  std::optional<std::string> schedule, graph;
  std::optional<double> spectral_gap;
  std::optional<std::vector<std::string>> lost;  // whom, and why
  std::optional<std::string> run, blas_kernels, lab;
  std::vector<RankSummary> ranks;  // those that were there at the end, workers first

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    visit("ended", s.ended);
    visit("reason", s.reason);
    visit("strategy", s.strategy);
    visit("workers", s.workers);
    visit("model", s.model);
    visit("data", s.data);
    visit("program", s.program);
    visit("parameters", s.parameters);
    visit("accuracy", s.accuracy);
    visit("loss", s.loss);
    visit("loss_unit", s.loss_unit);
    visit("epochs", s.epochs);
    visit("steps", s.steps);
    visit("samples", s.samples);
    visit("goal_step", s.goal_step);
    visit("seconds", s.seconds);
    visit("train_seconds", s.train_seconds);
    visit("samples_per_second", s.samples_per_second);
    visit("finish_seconds", s.finish_seconds);
    visit("servers", s.servers);
    visit("mixing", s.mixing);
    visit("spread", s.spread);
    visit("schedule", s.schedule);
    visit("graph", s.graph);
    visit("spectral_gap", s.spectral_gap);
    visit("lost", s.lost);
    visit("run", s.run);
    visit("blas_kernels", s.blas_kernels);
    visit("lab", s.lab);
  }

  // Of gradients at servers, or of models that were mixed in.
  const StalenessSummary* staleness() const {
    return servers ? &servers->staleness : mixing ? &mixing->staleness : nullptr;
  }
  // Over all ranks that tell, or over the workers alone.
  template <class T>
  double sum(std::optional<T> RankSummary::*field) const {
    double sum = 0;
    for (const RankSummary& rank : ranks) sum += static_cast<double>((rank.*field).value_or(0));
    return sum;
  }
  template <class T>
  double mean_of_workers(std::optional<T> RankSummary::*field) const {
    double sum = 0, count = 0;
    for (const RankSummary& rank : ranks) {
      if (rank.role != RankSummary::Role::worker) continue;
      sum += static_cast<double>((rank.*field).value_or(0));
      ++count;
    }
    return count > 0 ? sum / count : 0;
  }
  // Whether any rank tells.
  template <class T>
  bool has(std::optional<T> RankSummary::*field) const {
    for (const RankSummary& rank : ranks) {
      if (rank.*field) return true;
    }
    return false;
  }
};

nlohmann::json as_json(const RunSummary& summary);
// Files may be anybody's: what is not as it should be counts as not told.
RunSummary run_summary_in(const nlohmann::json& object);

// What a server, or a worker of a user's own loop, tells the launcher of itself.
nlohmann::json as_json(const RankSummary& rank);
RankSummary rank_summary_in(const nlohmann::json& object, RankSummary::Role role, int rank);

}  // namespace starling
