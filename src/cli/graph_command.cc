// starling graph: who hears whom, with what weight, and how soon the workers agree.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "cli/command.h"
#include "exchange/pairwise.h"
#include "report/table.h"
#include "topology/findings.h"
#include "topology/mixing.h"
#include "topology/passes.h"
#include "topology/spectrum.h"

namespace starling {

namespace {

constexpr int kMaxWorkersShown = 32;

struct GraphCommand {
  std::string name;  // none: all of them
  std::string passes_mean = "window";
  GraphSettings settings{.size = 6};
  bool print_json = false;
};

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

std::string_view weights_name(const GraphSettings& settings, const Graph& graph) {
  if (settings.repeats()) return "binomial";
  return graph.symmetric() ? "Metropolis" : "plain mean";
}

std::string rounds_text(const GraphFindings& found) {
  const auto rounds = rounds_to_shrink_tenfold(found.contraction, found.graph.rounds());
  return rounds ? format_count(static_cast<double>(*rounds)) : "never";
}

std::string gap_text(const GraphFindings& found) {
  return fmt::format("{:.4g}", 1 - found.contraction);
}

std::string sent_text(const GraphFindings::Sent& sent) {
  return sent.least == sent.most ? fmt::format("{:.4g}", sent.most)
                                 : fmt::format("{:.4g} to {:.4g}", sent.least, sent.most);
}

// The weights of those a worker hears; one number where all weigh the same.
std::string weights_text(std::span<const int> heard, const std::vector<double>& row) {
  std::vector<std::string> texts;
  for (int from : heard) texts.push_back(fmt::format("{:.3f}", row[at(from)]));
  if (std::ranges::adjacent_find(texts, std::not_equal_to<>()) == texts.end()) {
    texts.resize(std::min<std::size_t>(1, texts.size()));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string heard_text(std::span<const int> heard) {
  return heard.empty() ? "nobody" : fmt::format("{}", fmt::join(heard, ", "));
}

Table who_hears_whom(const GraphFindings& found) {
  Table table({"worker", "hears", "each weighs", "itself"});
  for (int rank = 0; rank < found.graph.size(); ++rank) {
    const auto heard = found.graph.hears(rank);
    const auto& weights = found.weights[0][at(rank)];
    table.add({std::to_string(rank), heard_text(heard), weights_text(heard, weights),
               fmt::format("{:.3f}", weights[at(rank)])});
  }
  return table;
}

// Without weights, to keep it narrow: of all our graphs only groups and the one-peer exponential one
// change, and there all weigh as much as oneself.
Table who_hears_whom_when(const Graph& graph) {
  std::vector<std::string> header = {"worker"};
  for (std::uint64_t round = 0; round < graph.rounds(); ++round) {
    header.push_back(fmt::format("in round {}", round));
  }
  header[1] = "hears " + header[1];
  Table table(header);
  for (int rank = 0; rank < graph.size(); ++rank) {
    std::vector<std::string> row = {std::to_string(rank)};
    for (std::uint64_t round = 0; round < graph.rounds(); ++round) {
      row.push_back(heard_text(graph.hears(rank, round)));
    }
    table.add(row);
  }
  return table;
}

// Of many workers only how many hear and tell how many, in the first round; none of our graphs
// changes that by round, but for who is in a smaller group.
Table degrees(const Graph& graph) {
  std::map<std::pair<std::size_t, std::size_t>, int> workers;
  for (int rank = 0; rank < graph.size(); ++rank) {
    ++workers[{graph.hears(rank).size(), graph.tells(rank).size()}];
  }
  Table table({"workers", "hear", "tell"});
  for (const auto& [degree, count] : workers) {
    table.add({std::to_string(count), std::to_string(degree.first), std::to_string(degree.second)});
  }
  return table;
}

nlohmann::json summary(const std::string& name, const GraphSettings& settings,
                       const GraphFindings& found) {
  const auto rounds = rounds_to_shrink_tenfold(found.contraction, found.graph.rounds());
  return {{"graph", name},
          {"workers", found.graph.size()},
          {"rounds", found.graph.rounds()},
          {"symmetric", found.graph.symmetric()},
          {"weights", settings.repeats()        ? "binomial"
                      : found.graph.symmetric() ? "metropolis"
                                                : "mean"},
          {"contraction", found.contraction},
          {"spectral_gap", 1 - found.contraction},
          {"rounds_to_shrink_tenfold", rounds ? nlohmann::json(*rounds) : nlohmann::json()},
          {"models_sent_per_round",
           {{"least", found.sent.least}, {"mean", found.sent.mean}, {"most", found.sent.most}}}};
}

// By round and worker: whom it hears, their weights in the same order, and its own.
nlohmann::json mixing(const GraphFindings& found) {
  nlohmann::json rounds = nlohmann::json::array();
  for (std::uint64_t round = 0; round < found.graph.rounds(); ++round) {
    nlohmann::json workers = nlohmann::json::array();
    for (int rank = 0; rank < found.graph.size(); ++rank) {
      const auto heard = found.graph.hears(rank, round);
      const auto& row = found.weights[round][at(rank)];
      std::vector<double> weights;
      for (int from : heard) weights.push_back(row[at(from)]);
      workers.push_back({{"hears", std::vector<int>(heard.begin(), heard.end())},
                         {"weights", weights},
                         {"own_weight", row[at(rank)]}});
    }
    rounds.push_back(workers);
  }
  return rounds;
}

void show_one(const GraphCommand& command) {
  const GraphSettings& settings = command.settings;
  const GraphFindings found = examine(settings);
  const Graph& graph = found.graph;
  if (command.print_json) {
    nlohmann::json row = summary(command.name, settings, found);
    row["mixing"] = mixing(found);
    fmt::print("{}\n", row.dump());
    return;
  }
  const Table table = graph.size() > kMaxWorkersShown ? degrees(graph)
                      : graph.rounds() > 1            ? who_hears_whom_when(graph)
                                                      : who_hears_whom(found);
  fmt::print("{}\n", table.text());
  fmt::print("Weights: {}{}.\n", weights_name(settings, graph),
             graph.symmetric() || settings.repeats() ? "" : " of a worker and those it hears");
  if (!found.keeps_the_mean) {
    fmt::print("The workers agree, but not on the mean: some are heard more than others.\n");
  }
  fmt::print("Spectral gap: {}; in the long run a round leaves {:.4g} of the spread.\n",
             gap_text(found), found.contraction);
  fmt::print("Rounds to shrink the spread tenfold: {}.\n", rounds_text(found));
  fmt::print("Models a worker sends a round: {}{}.\n", sent_text(found.sent),
             found.sent.least == found.sent.most
                 ? ""
                 : fmt::format(", {:.4g} on average", found.sent.mean));
  if (settings.in_groups() && graph.size() > 1) {
    fmt::print("An all-reduce within each group sends {:.4g}.\n",
               mean_vectors_sent(std::min(settings.passes + 1, graph.size())));
    return;
  }
  const auto steps = window_steps(std::min(settings.passes, graph.size() - 1) + 1).size();
  if (settings.kind == GraphSettings::Kind::window && !settings.repeats() &&
      static_cast<double>(steps) < found.sent.most) {
    fmt::print("Partial sums save some of them: starling's pairwise exchange sends {}.\n", steps);
  }
}

void list_all(const GraphCommand& command) {
  Table table({"graph", "models sent", "weights", "spectral gap", "rounds to shrink tenfold"});
  nlohmann::json list = nlohmann::json::array();
  for (const std::string_view each : names_of(GraphSettings::Kind{}).each) {
    GraphSettings settings = command.settings;
    settings.kind = named<GraphSettings::Kind>(each);
    if (settings.kind == GraphSettings::Kind::file) continue;
    const std::string name(each);
    const GraphFindings found = examine(settings);
    list.push_back(summary(name, settings, found));
    table.add({name, sent_text(found.sent), std::string(weights_name(settings, found.graph)),
               gap_text(found), rounds_text(found)});
  }
  if (command.print_json) {
    fmt::print("{}\n", list.dump());
    return;
  }
  fmt::print(
      "{} worker{}: models each sends a round, and rounds until they differ a tenth as "
      "much:\n\n{}\n"
      "starling graph NAME shows who hears whom, starling graph --file FILE a graph of your own.\n",
      command.settings.size, command.settings.size == 1 ? "" : "s", table.text());
}

void show(GraphCommand command) {
  GraphSettings& settings = command.settings;
  settings.passes_mean = named<GraphSettings::Passes>(command.passes_mean);
  check_passes(settings, settings.size);
  if (command.name.empty() && !settings.file.empty()) {
    command.name = name_of(GraphSettings::Kind::file);
  }
  if (command.name.empty()) return list_all(command);
  settings.kind = named<GraphSettings::Kind>(command.name);
  if (!settings.file.empty() && settings.kind != GraphSettings::Kind::file) {
    throw Error(fmt::format("the graph '{}' is not read from a file", command.name),
                "leave out --file or the name");
  }
  show_one(command);
}

}  // namespace

void add_graph_command(CLI::App& app) {
  auto command = std::make_shared<GraphCommand>();
  GraphSettings& settings = command->settings;
  CLI::App* graph =
      app.add_subcommand("graph", "Show who hears whom, and how soon the workers agree");
  graph->footer(
      "A file holds one edge a line: '0 1' where both hear each other, '0 -> 1' where 1 hears "
      "0.\n\n"
      "Example:\n"
      "  starling graph                                  (all graphs, side by side)\n"
      "  starling graph closed-ring --workers 6\n"
      "  starling graph window --passes 3 --workers 16\n"
      "  starling graph window --passes 3 --passes-mean group --workers 16\n"
      "  starling graph file --file edges.txt --workers 5");
  graph->add_option("name", command->name, names_listed<GraphSettings::Kind>());
  graph->add_option("--workers", settings.size, "how many workers")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  graph->add_option("--passes", settings.passes, "window: how many ring predecessors are heard")
      ->check(CLI::Range(1, 1023))
      ->capture_default_str();
  graph
      ->add_option(
          "--passes-mean", command->passes_mean,
          "window: " + names_listed<GraphSettings::Passes>(" or ") + ", see `starling train`")
      ->capture_default_str();
  graph->add_option("--arity", settings.arity, "tree: how many children a worker has")
      ->check(CLI::Range(1, 1023))
      ->capture_default_str();
  graph->add_option("--file", settings.file, "file: where the edges are");
  graph->add_flag("--json", command->print_json, "print JSON");
  graph->callback([command] { show(*command); });
}

}  // namespace starling
