#include "cli/summary_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "report/table.h"

namespace starling {

namespace {

// How stale gradients were, as bars; what is staler than the rows go is in the last.
void print_histogram(const std::vector<std::uint64_t>& counts, double all) {
  constexpr std::size_t kRows = 10;
  double rest = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool last = i + 1 == counts.size();
    rest += static_cast<double>(counts[i]);
    if (i + 1 >= kRows && !last) continue;
    std::string bar;
    for (double share = rest / all; share >= 0.0125; share -= 0.025) bar += "▇";
    fmt::print("  {:>13}{}  {:5.1f} %  {}\n", std::min(i, kRows - 1), i >= kRows ? "+" : " ",
               rest / all * 100, bar);
    rest = 0;
  }
}

std::string count_text(const std::optional<std::uint64_t>& count) {
  return format_count(static_cast<double>(count.value_or(0)));
}

void print_staleness(const StalenessSummary& staleness, const char* unit,
                     std::optional<std::uint64_t> all) {
  fmt::print("staleness       {:.2f} {} on average, {} at the most\n", staleness.mean.value_or(0),
             unit, staleness.max.value_or(0));
  if (staleness.max.value_or(0) > 0 && staleness.histogram) {
    print_histogram(*staleness.histogram, static_cast<double>(all.value_or(0)));
  }
}

void print_servers(const ServersSummary& servers) {
  fmt::print("servers         {} updates, {} gradients applied, {} dropped\n",
             count_text(servers.updates), count_text(servers.gradients_applied),
             count_text(servers.gradients_dropped));
  print_staleness(servers.staleness, "updates", servers.gradients_applied);
}

void print_kernel_count(const RunSummary& summary) {
  const double kernel = summary.sum(&RankSummary::kernel_bytes_sent);
  const double wire = summary.sum(&RankSummary::wire_bytes_sent);
  fmt::print("kernel's count  {} sent by all hosts, {:+.1f} % against our {}: headers and acks\n",
             format_bytes(kernel), (kernel / wire - 1) * 100, format_bytes(wire));
}

void print_mixing(const RunSummary& summary) {
  const MixingSummary& mixing = *summary.mixing;
  fmt::print(
      "graph           {}{}\n", summary.graph.value_or("?"),
      summary.spectral_gap ? fmt::format(", spectral gap {:.3f}", *summary.spectral_gap) : "");
  fmt::print(
      "mixing          {} rounds of all workers, {} models mixed in, {} skipped for a slow "
      "network\n",
      count_text(mixing.rounds), count_text(mixing.models), count_text(mixing.skipped));
  print_staleness(mixing.staleness, "steps", mixing.models);
  fmt::print("spread          {:.2f} % of the model's length, between the workers at the end\n",
             summary.spread.value_or(NAN) * 100);
}

// An own loop tells its steps, the built-in trainer the accuracy of each worker's model.
void print_table(const RunSummary& summary, double seconds) {
  const bool scored = summary.has(&RankSummary::accuracy);
  Table table({"worker", scored ? "accuracy" : "steps", "payload sent", "wire sent", "waited"});
  const auto bytes = [](const RankSummary::Bytes& count) {
    return format_bytes(static_cast<double>(count.value_or(0)));
  };
  for (const RankSummary& rank : summary.ranks) {
    const bool serves = rank.role == RankSummary::Role::server;
    const std::int64_t number = rank.rank.value_or(0);
    const double waited = rank.waited_seconds.value_or(0);
    table.add({serves ? fmt::format("server {}", number) : std::to_string(number),
               serves   ? ""
               : scored ? fmt::format("{:.2f} %", rank.accuracy.value_or(0) * 100)
                        : count_text(rank.steps),
               bytes(rank.payload_bytes_sent), bytes(rank.wire_bytes_sent),
               serves ? "" : fmt::format("{:.1f} s ({:.0f} %)", waited, waited / seconds * 100)});
  }
  fmt::print("{}\n", table.text());
}

void print_training(const RunSummary& summary, double seconds, double train_seconds) {
  fmt::print("training        {}{} steps, {:.1f} s{}\n",
             summary.epochs ? fmt::format("{:.1f} epochs, ", *summary.epochs) : "",
             count_text(summary.steps), train_seconds,
             summary.samples_per_second
                 ? fmt::format(", {} samples/s", format_count(*summary.samples_per_second))
                 : "");
  if (summary.program) return;  // nobody knows which part of its time is which
  fmt::print("evaluations     {:.1f} s, which do not count as training: {:.1f} s in all\n",
             seconds - train_seconds, seconds);
}

// What the workers would have sent if they had averaged every step's gradients around a ring.
void print_saving(const RunSummary& summary) {
  const auto workers = static_cast<double>(summary.workers.value_or(1));
  const double model = static_cast<double>(summary.parameters.value_or(0)) * 4;
  const double ring = 2 * (workers - 1) * model * static_cast<double>(summary.steps.value_or(0));
  const double ours = summary.sum(&RankSummary::training_bytes_sent);
  if (ring <= 0 || ours <= 0) return;
  fmt::print("all-reduce      sends {} in as many steps around a ring, by formula: {}\n",
             format_bytes(ring),
             ours < ring ? fmt::format("{:.1f} times as much", ring / ours)
                         : fmt::format("{:.0f} % of this", ring / ours * 100));
  fmt::print("                (the same command with --strategy allreduce shows it)\n");
}

void print_score(const RunSummary& summary) {
  const char* const model = summary.mixing ? "averaged model" : "final model   ";
  const double right = *summary.accuracy * 100;
  if (summary.loss_unit) {
    fmt::print("{}  {:.4f} {} on the validation text, {:.2f} % of the next characters right\n",
               model, summary.loss.value_or(NAN), *summary.loss_unit, right);
  } else {
    fmt::print("{}  {:.2f} % on the test samples\n", model, right);
  }
}

}  // namespace

void print_summary(const RunSummary& summary) {
  const double seconds = summary.seconds.value_or(0);
  const double train_seconds = summary.train_seconds.value_or(seconds);
  print_table(summary, train_seconds);
  if (summary.accuracy) print_score(summary);
  print_training(summary, seconds, train_seconds);
  fmt::print("sent by all     {} on the wire, {} of them in training\n",
             format_bytes(summary.sum(&RankSummary::wire_bytes_sent)),
             format_bytes(summary.sum(&RankSummary::training_bytes_sent)));
  if (summary.mixing) print_saving(summary);
  if (summary.has(&RankSummary::kernel_bytes_sent)) print_kernel_count(summary);
  if (summary.mixing) print_mixing(summary);
  if (summary.servers) print_servers(*summary.servers);
  for (const std::string& loss : summary.lost.value_or(std::vector<std::string>())) {
    fmt::print("lost            {}; the others went on\n", loss);
  }
  if (summary.run) fmt::print("run folder      {}\n", *summary.run);
}

}  // namespace starling
