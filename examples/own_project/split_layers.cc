// A network that is too wide for one worker: all of them share its layers. Build and start it as
// CMakeLists.txt beside it says, or in Starling's own tree:
//
//   cmake --build --preset release --target example-split-layers
//   starling launch -n 2 -- build/release/bin/example-split-layers
//
// It fits y = sin(x). Every worker sees the same points and has its part of the wide layers.
#include <starling/split_layers.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

struct Net : torch::nn::Module {
  explicit Net(starling::TensorGroup group)
      : up(group, torch::nn::Linear(1, 500)), down(group, torch::nn::Linear(500, 1)) {
    register_module("up", up);
    register_module("down", down);
  }
  torch::Tensor forward(torch::Tensor x) { return down(torch::tanh(up(x))); }

  starling::ColumnLinear up;  // whole inputs, a part of the outputs
  starling::RowLinear down;   // a part of the inputs, whole outputs
};

int main() {
  starling::Session session(starling::job_from_environment());  // joins the other workers
  const starling::TensorGroup group(session.comm());
  torch::manual_seed(1);  // all draw the same weights, and the same points
  Net net(group);
  torch::optim::Adam optimizer(net.parameters(), 0.002);

  for (int step = 0; step < 500; ++step) {
    const torch::Tensor x = (torch::rand({64, 1}) * 2 - 1) * M_PI;
    optimizer.zero_grad();
    torch::mse_loss(net.forward(x), torch::sin(x)).backward();
    optimizer.step();  // each its own parameters
  }

  const torch::Tensor x = torch::linspace(-M_PI, M_PI, 100).view({-1, 1});
  const double error = torch::mse_loss(net.forward(x), torch::sin(x)).item<double>();
  std::printf("%d of 1501 parameters are here, mean squared error %.5f\n",
              static_cast<int>(torch::nn::utils::parameters_to_vector(net.parameters()).numel()),
              error);
  return error < 0.01 ? 0 : 1;
}
