// What a benchmark ran on.
#pragma once

#include <string>

namespace starling {

std::string machine_description();  // "2 cores of AMD EPYC"

}  // namespace starling
