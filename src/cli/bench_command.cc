// starling bench: how fast the parts are on this machine, beside their peers in the same run.
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "base/whole_file.h"
#include "cli/command.h"
#include "cli/settings_flags.h"
#include "job/worker_events.h"
#include "measure/choice_table.h"
#include "measure/codec_bench.h"
#include "measure/exchange_bench.h"
#include "measure/exchange_worker.h"
#include "measure/server_bench.h"
#include "measure/server_worker.h"
#include "measure/training_bench.h"

namespace starling {

namespace {

struct ExchangeCommand {
  ExchangeBench bench;
  std::vector<std::string> sizes = {"4KB", "64KB", "1MB", "4MB", "16MB", "64MB"};
  std::string choice_file;
  bool print_json = false;
};

struct ServerCommand {
  ServerBench bench;
  std::vector<std::string> sizes = {"1MB", "16MB"};
  bool print_json = false;
};

struct TrainingCommand {
  TrainingBench bench;
  SettingsFlags settings;
  bool print_json = false;
};

// Of whole float32s.
std::vector<std::size_t> in_bytes(const std::vector<std::string>& sizes, const char* least) {
  std::vector<std::size_t> all;
  for (const std::string& size : sizes) {
    const std::uint64_t bytes = parse_bytes(size) / 4 * 4;
    if (bytes < parse_bytes(least) || bytes > (std::uint64_t{1} << 32)) {
      throw Error(fmt::format("--sizes {} cannot be measured", size),
                  fmt::format("it goes from {} to 4GB", least));
    }
    all.push_back(bytes);
  }
  return all;
}

void print(const BenchResult& result, bool as_json) {
  if (as_json) {
    fmt::print("{}\n", result.numbers.dump());
  } else {
    fmt::print("{}\n\n{}\n{}\n", result.headline, result.table.text(), result.remarks);
  }
}

// What a benchmark launches. Its launcher hears what went wrong; the exit code is all that is left.
void work_for_launcher(const std::function<void(const Job&)>& work) {
  const Job job = job_from_environment();
  try {
    work(job);
  } catch (const std::exception& error) {
    report_error(job, error);
    throw CLI::RuntimeError(1);
  }
}

void add_lab_option(CLI::App& command, std::string& lab) {
  command.add_option("--lab", lab,
                     "on hosts of their own with slow links, e.g. 100mbit, or on a lab that is up "
                     "(see `starling lab`); needs root");
}

void add_exchange(CLI::App& bench) {
  auto command = std::make_shared<ExchangeCommand>();
  ExchangeBench& options = command->bench;
  CLI::App* exchange =
      bench.add_subcommand("exchange", "All-reduces between processes over loopback TCP, or MPI");
  exchange->footer(
      "Gloo and Open MPI are measured in the same run where their drivers were built (`make "
      "bench`).\n\n"
      "Example:\n"
      "  starling bench exchange --workers 4 --sizes 1MB,16MB,64MB\n"
      "  starling bench exchange --algorithms auto,ring --workers 8\n"
      "  starling bench exchange --tls --workers 2 --sizes 16MB\n"
      "  starling bench exchange --transport mpi --workers 4 --sizes 1MB,16MB\n"
      "  starling bench exchange --no-peers --write-choice src/exchange/choice_loopback.inc");
  exchange->add_option("--workers", options.workers, "numbers of processes")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  exchange->add_option("--sizes", command->sizes, "sizes of the vector")
      ->delimiter(',')
      ->capture_default_str();
  exchange->add_option("--algorithms", options.algorithms, "ring, tree, ... or all")
      ->delimiter(',')
      ->capture_default_str();
  exchange->add_option("--seconds", options.seconds, "time for each algorithm and size in a round")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  exchange->add_option("--rounds", options.rounds, "everybody takes turns so many times")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_lab_option(*exchange, options.lab);
  exchange->add_flag("--no-peers", options.no_peers, "measure only Starling");
  exchange
      ->add_option_function<std::string>(
          "--transport", [&options](const std::string& name) { options.mpi = name == "mpi"; },
          "tcp, or mpi: over MPI, beside MPI's own all-reduce")
      ->check(CLI::IsMember(std::vector<std::string>{"tcp", "mpi"}))
      ->default_str("tcp");
  exchange->add_flag("--tls", options.tls, "measure Starling encrypted, too");
  exchange->add_option("--write-choice", command->choice_file,
                       "write the fastest algorithms to this file, as the table that `--exchange "
                       "auto` is built with (src/exchange/choice_loopback.inc)");
  exchange->add_flag("--json", command->print_json, "print JSON");
  exchange->callback([command] {
    command->bench.sizes_bytes = in_bytes(command->sizes, "4B");
    const BenchResult result = bench_exchange(command->bench);
    print(result, command->print_json);
    if (!command->choice_file.empty()) {
      write_whole_file(command->choice_file, choice_table(result.numbers["rows"]));
    }
  });
}

void add_exchange_worker(CLI::App& bench) {
  auto work = std::make_shared<ExchangeWork>();
  CLI::App* worker = bench.add_subcommand("exchange-worker", "")->group("");
  worker->add_option("--algorithms", work->algorithms)->delimiter(',')->required();
  worker->add_option("--bytes", work->sizes_bytes)->delimiter(',')->required();
  worker->add_option("--seconds", work->seconds);
  worker->callback(
      [work] { work_for_launcher([&](const Job& job) { time_exchanges(job, *work); }); });
}

void add_server(CLI::App& bench) {
  auto command = std::make_shared<ServerCommand>();
  ServerBench& options = command->bench;
  CLI::App* server =
      bench.add_subcommand("server", "Push and pull between workers and parameter servers");
  server->footer(
      "A plain ZeroMQ program is measured in the same run where it was built (`make bench`).\n\n"
      "Example:\n"
      "  starling bench server --workers 1,4 --servers 1 --sizes 16MB\n"
      "  starling bench server --workers 4 --servers 2 --replicas 1,2 --sizes 16MB");
  server->add_option("--workers", options.workers, "numbers of workers")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  server->add_option("--servers", options.servers, "numbers of servers")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  server->add_option("--replicas", options.replicas, "how many servers hold each shard")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  server->add_option("--sizes", command->sizes, "sizes of the model")
      ->delimiter(',')
      ->capture_default_str();
  server->add_option("--seconds", options.seconds, "time for each measurement")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  server->add_option("--rounds", options.rounds, "everybody takes turns so many times")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_lab_option(*server, options.lab);
  server->add_flag("--no-peers", options.no_peers, "measure only Starling");
  server->add_flag("--json", command->print_json, "print JSON");
  server->callback([command] {
    command->bench.sizes_bytes = in_bytes(command->sizes, "1KB");
    print(bench_server(command->bench), command->print_json);
  });
}

void add_server_worker(CLI::App& bench) {
  struct Work {
    std::size_t bytes = 0;
    double seconds = 0.5;
  };
  auto work = std::make_shared<Work>();
  CLI::App* worker = bench.add_subcommand("server-worker", "")->group("");
  worker->add_option("--bytes", work->bytes)->required();
  worker->add_option("--seconds", work->seconds);
  worker->callback([work] {
    work_for_launcher([&](const Job& job) { time_push_and_pull(job, work->bytes, work->seconds); });
  });
}

void add_codecs(CLI::App& bench) {
  struct Command {
    CodecBench bench;
    bool print_json = false;
  };
  auto command = std::make_shared<Command>();
  CodecBench& options = command->bench;
  CLI::App* codecs =
      bench.add_subcommand("codecs", "What each codec makes of one update: bytes, time, memory");
  codecs->footer(
      "Example:\n"
      "  starling bench codecs\n"
      "  starling bench codecs --gradient update.f32 --threshold 3 --json");
  CLI::Option* elements =
      codecs->add_option("--elements", options.elements, "how many elements an update has")
          ->check(CLI::Range(1, 1 << 30))
          ->capture_default_str();
  codecs->add_option("--gradient", options.gradient, "an update to take: a file of float32s")
      ->excludes(elements);
  codecs->add_option("--seed", options.seed, "what an update is drawn from otherwise")
      ->capture_default_str();
  codecs
      ->add_option("--threshold", options.threshold,
                   "the threshold codec's, in root mean squares of the update")
      ->check(CLI::Range(1e-3, 1e6))
      ->capture_default_str();
  codecs->add_option("--rounds", options.rounds, "of which the fastest counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  codecs->add_flag("--json", command->print_json, "print JSON");
  codecs->callback([command] { print(bench_codecs(command->bench), command->print_json); });
}

void add_training(CLI::App& bench) {
  auto command = std::make_shared<TrainingCommand>();
  CLI::App* training = bench.add_subcommand("training", "All-reduce training beside PyTorch DDP");
  training->footer("Example:\n  starling bench training --workers 4 --epochs 1");
  command->settings.add_to(*training, SettingsFlags::Which::all);
  training->add_option("--rounds", command->bench.rounds, "both take turns so many times")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  add_lab_option(*training, command->bench.lab);
  training->add_flag("--json", command->print_json, "print JSON");
  training->callback([command] {
    command->bench.settings = command->settings.unchecked();
    print(bench_training(command->bench), command->print_json);
  });
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure how fast this machine's exchanges and codecs are");
  bench->require_subcommand(1);
  bench->footer("Example:\n  starling bench exchange --workers 4 --sizes 1MB,16MB,64MB");
  add_exchange(*bench);
  add_server(*bench);
  add_codecs(*bench);
  add_training(*bench);
  add_exchange_worker(*bench);
  add_server_worker(*bench);
}

}  // namespace starling
