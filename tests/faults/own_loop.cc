// A training loop of its own for tests/faults/matrix, with the ways in which such loops end before
// their time.
//
//   own_loop [--megabytes N] [--steps N] [--throw RANK:STEP] [--catch RANK:STEP]
//            [--run-out RANK:STEP] [--join all] [--checkpoint RANK:FILE]
//
// --throw ends a worker by an exception that nobody catches, --catch by one that main() catches.
// --run-out lets a worker's data end early; with --join all workers expect that.
// Every worker says its rank after each tenth step and, at the end, a sum over its weights. With
// --checkpoint the worker writes its model to a file after each tenth step, and throws if it cannot.
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "train/dist.h"

namespace {

// "2:100" -> rank 2, "100".
struct Fault {
  int rank = -1;
  std::string what;

  explicit Fault(const std::string& text) {
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) return;
    rank = std::stoi(text.substr(0, colon));
    what = text.substr(colon + 1);
  }
};

struct Options {
  std::int64_t megabytes = 1;
  int steps = 200;
  Fault fails{""}, fails_politely{""}, runs_out{""}, checkpoint{""};
  bool join = false;

  int steps_of(int rank) const { return rank == runs_out.rank ? std::stoi(runs_out.what) : steps; }
};

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--megabytes") options.megabytes = std::stoi(value);
    if (name == "--steps") options.steps = std::stoi(value);
    if (name == "--throw") options.fails = Fault(value);
    if (name == "--catch") options.fails_politely = Fault(value);
    if (name == "--run-out") options.runs_out = Fault(value);
    if (name == "--join") options.join = true;
    if (name == "--checkpoint") options.checkpoint = Fault(value);
  }
  return options;
}

void write_checkpoint(const std::string& name, const torch::Tensor& weights) {
  std::ofstream file(name, std::ios::binary);
  file.write(static_cast<const char*>(weights.data_ptr()), weights.numel() * 4);
  file.close();
  if (!file) throw std::runtime_error("cannot write the checkpoint " + name);
}

bool is_due(const Fault& fault, int rank, int step) {
  return fault.rank == rank && std::stoi(fault.what) == step;
}

int train(const Options& options) {
  torch::set_num_threads(1);
  torch::manual_seed(1);
  torch::nn::Linear net(torch::nn::LinearOptions(64, options.megabytes * 1'000'000 / 4 / 64));
  starling::Dist dist(*net);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  torch::manual_seed(static_cast<std::uint64_t>(dist.rank()) + 1);
  if (options.join) dist.expect_uneven_inputs();
  for (int step = 1; step <= options.steps_of(dist.rank()); ++step) {
    const torch::Tensor x = torch::randn({2, 64});
    (net->forward(x) - 1).square().mean().backward();
    dist.step(optimizer);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (is_due(options.fails, dist.rank(), step) ||
        is_due(options.fails_politely, dist.rank(), step)) {
      throw std::runtime_error("the data is bad");
    }
    if (step % 10 != 0) continue;
    std::printf("rank %d step %d\n", dist.rank(), step);
    std::fflush(stdout);
    if (dist.rank() == options.checkpoint.rank) {
      write_checkpoint(options.checkpoint.what, net->weight);
    }
  }
  if (options.join) dist.join(optimizer);
  dist.finish();
  std::printf("rank %d finished %.6f\n", dist.rank(), net->weight.sum().item<double>());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  if (options.fails_politely.rank < 0) return train(options);
  try {
    return train(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
