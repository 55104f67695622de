// A network whose layers live on several workers. Build and start it as CMakeLists.txt beside it says,
// or in Starling's own tree:
//
//   cmake --build --preset release --target example-pipeline
//   starling launch -n 4 --pipeline 2 --strategy allreduce -- build/release/bin/example-pipeline
//
// It fits y = sin(x) with two copies of two stages each; every copy sees points of its own.
#include <starling/pipeline.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

namespace nn = torch::nn;

starling::DataSet::Batch points(int count) {
  const torch::Tensor x = (torch::rand({count, 1}) * 2 - 1) * M_PI;
  return {x, torch::sin(x)};
}

torch::Tensor mean_square(const torch::Tensor& y, const torch::Tensor& targets) {
  return torch::mse_loss(y, targets);
}

int main() {
  nn::Sequential net(nn::Linear(1, 32), nn::Tanh(), nn::Linear(32, 32), nn::Tanh(),
                     nn::Linear(32, 1));
  starling::Pipeline pipeline(net, points(64), mean_square);  // joins the other workers
  torch::optim::Adam optimizer(pipeline.parameters(), 0.01);  // of the layers that are here

  torch::manual_seed(static_cast<std::uint64_t>(pipeline.dist().rank()) + 1);
  for (int step = 0; step < 1000; ++step) {
    pipeline.learn(points(64));  // in place of forward() and backward()
    pipeline.step(optimizer);
  }
  pipeline.finish();  // all copies are now the same
  if (pipeline.dist().rank() == 0) pipeline.save("sine.safetensors");  // all its stages, one file

  const torch::Tensor x = torch::linspace(-M_PI, M_PI, 100).view({-1, 1});
  const torch::Tensor y = pipeline.scores(x);
  if (!y.defined()) return 0;  // only the last stage knows
  const double error = torch::mse_loss(y, torch::sin(x)).item<double>();
  std::printf("copy %d, mean squared error %.5f\n", pipeline.dist().rank(), error);
  return error < 0.01 ? 0 : 1;
}
