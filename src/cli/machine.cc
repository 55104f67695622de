#include "cli/machine.h"

#include <fmt/format.h>

#include <fstream>
#include <thread>

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
  return fmt::format("{} cores of {}", std::thread::hardware_concurrency(), model);
}

}  // namespace starling
