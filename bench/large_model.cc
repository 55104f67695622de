// Writes a TorchScript file with many weights and little to compute, to measure memory with
// (bench/measure_memory):
//
//   large-model model.pt 64     of 64 MB, in 8 tables and a small layer
#include <torch/script.h>

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
  const double megabytes = argc == 3 ? std::atof(argv[2]) : 0;
  if (!(megabytes > 0)) {
    std::fputs("usage: large-model FILE MEGABYTES\n", stderr);
    return 2;
  }
  constexpr int kTables = 8;
  const auto elements = static_cast<std::int64_t>(megabytes * 1e6 / sizeof(float) / kTables);
  torch::jit::Module model("LargeModel");
  std::string sum = "0.0";
  for (int i = 0; i < kTables; ++i) {
    const std::string name = "table" + std::to_string(i);
    model.register_parameter(name, torch::zeros({elements}).requires_grad_(), false);
    sum += " + self." + name + ".sum()";
  }
  model.register_parameter("layer", torch::zeros({784, 10}).requires_grad_(), false);
  model.define("def forward(self, images):\n  return images.flatten(1).matmul(self.layer) + (" +
               sum + ") * 1e-9\n");
  model.save(argv[1]);
}
