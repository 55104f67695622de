// starling explain: an exchange, iteration by iteration, as a table; a pipeline has a file of its own.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "cli/command.h"
#include "exchange/allreduce.h"
#include "exchange/pairwise.h"
#include "plan/exchange_trace.h"
#include "report/table.h"

namespace starling {

namespace {

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

Visibility all_visible(const ExchangeTrace& trace) {
  const Rows& start = trace.iterations[0].values;
  return Visibility(trace.iterations.size(),
                    std::vector(start.size(), std::vector<bool>(start[0].size(), true)));
}

void print_numbers(const ExplainCommand& command, const ExchangeTrace& result,
                   const Visibility& shown) {
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

void print_symbols(const ExplainCommand& command, int workers, int step, const Exchange& exchange) {
  const auto n = static_cast<std::size_t>(workers);
  const ExchangeTrace rounds = trace_shares(workers, command.rounds, exchange);
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
    const ExchangeTrace result = trace_rounds(start, command.rounds, exchange);
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
  CLI::App* explaining = app.add_subcommand(
      "explain", "Show an exchange step by step, as a table, or what a pipeline comes to");
  explaining->footer(
      "A cell is empty once its partial sum has been sent on.\n\n"
      "Example:\n"
      "  starling explain ring --workers 4 --values \"17,11,1,9/5,13,23,14/3,6,10,8/12,7,2,12\"\n"
      "  starling explain pairwise --workers 3            (symbolic: a, b and c are first "
      "weights)\n"
      "  starling explain pairwise --values \"1/5/9\" --rounds 4\n"
      "  starling explain pipeline --model char-gpt --pipeline 3");
  explaining->add_option(
      "algorithm", command->algorithm,
      "ring, pairwise, tree, doubling, naive, scatter-reduce, halving-doubling or "
      "all-to-all");
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
  add_explain_pipeline_command(*explaining);
  explaining->callback([command, explaining] {
    if (!explaining->get_subcommands().empty()) return;  // which has done it
    if (command->algorithm.empty()) throw CLI::RequiredError("algorithm");
    explain(*command);
  });
}

}  // namespace starling
