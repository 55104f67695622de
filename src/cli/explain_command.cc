// starling explain: an exchange, iteration by iteration, as a table. The numbers come from running
// the real exchange in the simulator, on a network where every message takes one second: an
// iteration is a second.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/error.h"
#include "cli/command.h"
#include "exchange/allreduce.h"
#include "exchange/pairwise.h"
#include "report/table.h"
#include "sim/cluster.h"

namespace starling {

namespace {

using Rows = std::vector<std::vector<float>>;
using Exchange = std::function<Task<>(Comm&, std::span<float>)>;
constexpr Channel kChannel{1, Purpose::weights};
constexpr std::size_t kMaxColumns = 64;

struct ExplainCommand {
  std::string algorithm;
  int workers = 0;
  std::string values;
  int passes = 1;
  int rounds = 3;
  bool print_json = false;
};

// What stood where after each iteration, and which cells had been sent on in it.
struct Trace {
  struct Iteration {
    Rows values;
    std::set<std::pair<std::size_t, std::size_t>> sent;  // (worker, cell)
  };
  std::vector<Iteration> iterations;
};

Trace trace(Rows vectors, const Exchange& exchange) {
  Cluster cluster(static_cast<int>(vectors.size()), {{.latency = std::chrono::seconds(1)}, {}});
  Trace result;
  result.iterations.push_back({vectors, {}});
  decltype(Trace::Iteration::sent) sent;
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

// The same exchange again and again: where all stand after each round. A round of several messages
// takes several seconds; only its end is a mean.
Trace trace_rounds(const Rows& start, int rounds, const Exchange& exchange) {
  Trace result;
  result.iterations.push_back({start, {}});
  for (int round = 0; round < rounds; ++round) {
    result.iterations.push_back(
        {trace(result.iterations.back().values, exchange).iterations.back().values, {}});
  }
  return result;
}

// By iteration, worker and cell.
using Visibility = std::vector<std::vector<std::vector<bool>>>;

// Which cells are worth showing: a partial sum that has been sent on is of no more use where it
// was. The same exchange, run on ones, counts how many workers a cell is the sum of.
Visibility visible_cells(const Rows& start, const Exchange& exchange) {
  const auto workers = start.size();
  Rows ones(workers, std::vector<float>(start[0].size(), 1.0f));
  const Trace counts = trace(ones, exchange);
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

std::string worker_name(std::size_t index) {
  return index < 26 ? std::string(1, static_cast<char>('A' + index)) : fmt::format("W{}", index);
}

Rows parse_values(const std::string& text, int workers) {
  Rows vectors(1);
  const char* at = text.data();
  const char* end = text.data() + text.size();
  while (true) {
    float value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) {
      throw Error(fmt::format("--values: '{}' is not a number", std::string(at, end)),
                  "write workers between slashes and values between commas, e.g. 1,2/3,4");
    }
    vectors.back().push_back(value);
    if (next == end) break;
    if (*next == '/') vectors.emplace_back();
    if (*next != '/' && *next != ',') {
      throw Error(fmt::format("--values: '{}' should be a comma or a slash", *next));
    }
    at = next + 1;
  }
  for (const auto& vector : vectors) {
    if (vector.size() != vectors[0].size()) {
      throw Error("--values: every worker needs the same number of values");
    }
  }
  if (workers > 0 && vectors.size() != static_cast<std::size_t>(workers)) {
    throw Error(
        fmt::format("--values holds {} workers, --workers says {}", vectors.size(), workers),
        "leave --workers out, or make them agree");
  }
  if (vectors.size() * vectors[0].size() > kMaxColumns) {
    throw Error(fmt::format("--values has more than {} numbers", kMaxColumns),
                "a table as wide as that cannot be read");
  }
  return vectors;
}

Visibility all_visible(const Trace& trace) {
  const Rows& start = trace.iterations[0].values;
  return Visibility(trace.iterations.size(),
                    std::vector(start.size(), std::vector<bool>(start[0].size(), true)));
}

void print_numbers(const ExplainCommand& command, const Trace& result, const Visibility& shown) {
  const Rows& start = result.iterations[0].values;
  const std::size_t cells = start[0].size();
  if (command.print_json) {
    nlohmann::json iterations = nlohmann::json::array();
    for (std::size_t t = 0; t < result.iterations.size(); ++t) {
      nlohmann::json row = nlohmann::json::array();
      for (std::size_t w = 0; w < start.size(); ++w) {
        nlohmann::json worker = nlohmann::json::array();
        for (std::size_t c = 0; c < cells; ++c) {
          worker.push_back(shown[t][w][c] ? nlohmann::json(result.iterations[t].values[w][c])
                                          : nlohmann::json());
        }
        row.push_back(worker);
      }
      iterations.push_back(row);
    }
    fmt::print("{}\n", nlohmann::json{{"algorithm", command.algorithm},
                                      {"workers", start.size()},
                                      {"iterations", iterations}}
                           .dump());
    return;
  }
  std::vector<std::string> header = {"iteration"};
  for (std::size_t w = 0; w < start.size(); ++w) {
    for (std::size_t c = 0; c < cells; ++c) {
      header.push_back(c == 0 ? "| " + worker_name(w) : "");
    }
  }
  Table table(header);
  for (std::size_t t = 0; t < result.iterations.size(); ++t) {
    std::vector<std::string> row = {std::to_string(t)};
    for (std::size_t w = 0; w < start.size(); ++w) {
      for (std::size_t c = 0; c < cells; ++c) {
        const std::string value =
            shown[t][w][c] ? fmt::format("{:.4g}", result.iterations[t].values[w][c]) : "";
        row.push_back(c == 0 ? fmt::format("| {:>3}", value) : value);
      }
    }
    table.add(row);
  }
  fmt::print("{}", table.text());
}

// The sum of the workers' first weights a, b, c ... that a worker holds, with the denominator it
// has by now.
std::string symbols(const std::vector<float>& coefficients, std::size_t worker,
                    double denominator) {
  std::vector<long> numerators;
  auto divisor = static_cast<long>(std::llround(denominator));
  for (float each : coefficients) {
    numerators.push_back(std::lround(static_cast<double>(each) * denominator));
    divisor = std::gcd(divisor, numerators.back());
  }
  std::string sum;
  // In the order of the ring, so that a worker's own weights come last.
  for (std::size_t k = 1; k <= numerators.size(); ++k) {
    const std::size_t of = (worker + k) % numerators.size();
    const long times = numerators[of] / divisor;
    if (times == 0) continue;
    std::string name = worker_name(of);
    if (of < 26) name[0] = static_cast<char>('a' + of);
    sum += fmt::format("{}{}{}", sum.empty() ? "" : "+", times == 1 ? "" : std::to_string(times),
                       name);
  }
  const long below = std::lround(denominator) / divisor;
  return below == 1 ? sum : fmt::format("({})/{}", sum, below);
}

// Averaging is linear: run on unit vectors, it shows how much of everybody's weights a worker
// holds.
void print_symbols(const ExplainCommand& command, int workers, int step, const Exchange& exchange) {
  const auto n = static_cast<std::size_t>(workers);
  Rows units(n, std::vector<float>(n, 0.0f));
  for (std::size_t i = 0; i < n; ++i) units[i][i] = 1;
  const Trace rounds = trace_rounds(units, command.rounds, exchange);
  std::vector<std::string> header = {"round"};
  for (std::size_t w = 0; w < n; ++w) header.push_back(worker_name(w));
  Table table(header);
  nlohmann::json json_rounds = nlohmann::json::array();
  double denominator = 1;
  for (std::size_t t = 0; t < rounds.iterations.size(); ++t) {
    std::vector<std::string> row = {std::to_string(t)};
    for (std::size_t w = 0; w < n; ++w) {
      row.push_back(symbols(rounds.iterations[t].values[w], w, denominator));
    }
    json_rounds.push_back(std::vector<std::string>(row.begin() + 1, row.end()));
    table.add(row);
    denominator *= step;
  }
  if (command.print_json) {
    fmt::print("{}\n",
               nlohmann::json{
                   {"algorithm", command.algorithm}, {"workers", workers}, {"rounds", json_rounds}}
                   .dump());
  } else {
    fmt::print("{}", table.text());
  }
}

void explain_pairwise(const ExplainCommand& command) {
  const bool numbers = !command.values.empty();
  const Rows start = numbers ? parse_values(command.values, command.workers) : Rows();
  const int workers = numbers                ? static_cast<int>(start.size())
                      : command.workers == 0 ? 3
                                             : command.workers;
  if (command.passes > std::max(1, workers - 1)) {
    throw Error(fmt::format("--passes {} needs more than {} workers", command.passes, workers));
  }
  const Exchange exchange = [&](Comm& comm, std::span<float> values) {
    return pairwise_average(comm, kChannel, values, command.passes);
  };
  if (numbers) {
    const Trace result = trace_rounds(start, command.rounds, exchange);
    return print_numbers(command, result, all_visible(result));
  }
  if (std::pow(command.passes + 1, command.rounds) > 1e6) {
    throw Error(fmt::format("--rounds {} makes fractions nobody can read", command.rounds),
                "take fewer");
  }
  print_symbols(command, workers, command.passes + 1, exchange);
}

// One cell for each worker, if that can still be read.
Rows example_values(int workers) {
  if (workers == 0 || workers == 4) {
    return parse_values("17,11,1,9/5,13,23,14/3,6,10,8/12,7,2,12", 4);
  }
  const std::size_t n = static_cast<std::size_t>(workers);
  Rows vectors(n, std::vector<float>(std::min(n, kMaxColumns / n)));
  for (std::size_t w = 0; w < n; ++w) {
    for (std::size_t c = 0; c < vectors[w].size(); ++c) {
      vectors[w][c] = static_cast<float>((w + 1) * (c + 1));
    }
  }
  return vectors;
}

void explain(const ExplainCommand& command) {
  if (command.algorithm == "pairwise") return explain_pairwise(command);
  Allreduce* allreduce = find_allreduce(command.algorithm);
  const Rows start = command.values.empty() ? example_values(command.workers)
                                            : parse_values(command.values, command.workers);
  const Exchange exchange = [&](Comm& comm, std::span<float> vector) {
    return allreduce(comm, kChannel, vector, Reduction::sum);
  };
  print_numbers(command, trace(start, exchange), visible_cells(start, exchange));
}

}  // namespace

void add_explain_command(CLI::App& app) {
  auto command = std::make_shared<ExplainCommand>();
  CLI::App* explaining = app.add_subcommand("explain", "Show an exchange step by step, as a table");
  explaining->footer(
      "A cell is empty once its partial sum has been sent on.\n\n"
      "Example:\n"
      "  starling explain ring --workers 4 --values \"17,11,1,9/5,13,23,14/3,6,10,8/12,7,2,12\"\n"
      "  starling explain pairwise --workers 3            (symbolic: a, b and c are first "
      "weights)\n"
      "  starling explain pairwise --values \"1/5/9\" --rounds 4");
  explaining
      ->add_option("algorithm", command->algorithm,
                   "ring, pairwise, tree, doubling, naive, scatter-reduce or halving-doubling")
      ->required();
  explaining->add_option("--workers", command->workers, "how many workers")
      ->check(CLI::Range(1, 64));
  explaining->add_option("--values", command->values,
                         "numbers to start with: workers between slashes, values between commas");
  explaining
      ->add_option("--passes", command->passes, "pairwise: how many predecessors are averaged")
      ->check(CLI::Range(1, 63))
      ->capture_default_str();
  explaining->add_option("--rounds", command->rounds, "pairwise: how many rounds")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  explaining->add_flag("--json", command->print_json, "print JSON");
  explaining->callback([command] { explain(*command); });
}

}  // namespace starling
