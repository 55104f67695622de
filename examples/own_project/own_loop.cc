// A training loop of your own, made distributed by three lines of Starling. Build and start it as
// CMakeLists.txt beside it says, or in Starling's own tree:
//
//   cmake --build --preset release --target example-own-loop
//   starling launch -n 4 --strategy pairwise -- build/release/bin/example-own-loop
//
// It fits a small network to y = sin(x), each worker on points of its own.
#include <starling/dist.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

struct Net : torch::nn::Module {
  torch::nn::Linear hidden{register_module("hidden", torch::nn::Linear(1, 32))};
  torch::nn::Linear out{register_module("out", torch::nn::Linear(32, 1))};

  torch::Tensor forward(torch::Tensor x) { return out(torch::tanh(hidden(x))); }
};

int main() {
  Net net;
  starling::Dist dist(net);  // joins the other workers; without a launcher it is alone
  torch::optim::Adam optimizer(net.parameters(), 0.01);

  torch::manual_seed(static_cast<std::uint64_t>(dist.rank()) + 1);
  for (int step = 0; step < 1000; ++step) {
    const torch::Tensor x = (torch::rand({64, 1}) * 2 - 1) * M_PI;
    torch::mse_loss(net.forward(x), torch::sin(x)).backward();
    dist.step(optimizer);  // in place of optimizer.step() and zero_grad()
  }
  dist.finish();  // all workers now hold the same model

  const torch::Tensor x = torch::linspace(-M_PI, M_PI, 100).view({-1, 1});
  const double error = torch::mse_loss(net.forward(x), torch::sin(x)).item<double>();
  dist.report({.test_loss = error});  // for `starling launch --run` and `--live`
  if (dist.rank() == 0) std::printf("%d workers, mean squared error %.5f\n", dist.size(), error);
  return error < 0.01 ? 0 : 1;
}
