#include "measure/machine.h"

#include <fmt/format.h>

#include <fstream>
#include <thread>

#include "launch/blas_kernels.h"

namespace starling {

std::string machine_description() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line, model = "an unknown processor";
  while (std::getline(cpuinfo, line)) {
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  }
  return fmt::format("{} cores of {}, {}", std::thread::hardware_concurrency(), model,
                     kernels_description());
}

std::string kernels_description() {
  const BlasKernels kernels = blas_kernels();
  return fmt::format("OpenBLAS kernels: {}{}", kernels.name.empty() ? "none" : kernels.name,
                     kernels.must_be_set ? ", set by the launcher" : "");
}

}  // namespace starling
