// What a benchmark ran on.
#pragma once

#include <string>

namespace starling {

std::string machine_description();  // "2 cores of AMD EPYC, OpenBLAS kernels: Zen"

// Those that workers multiply with: "OpenBLAS kernels: Haswell, set by the launcher".
std::string kernels_description();

}  // namespace starling
