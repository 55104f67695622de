// Where this program is, and those that stand beside it.
#pragma once

#include <filesystem>
#include <string>

namespace starling {

std::filesystem::path own_program();

// Whether there is one of that name, e.g. a peer's driver, which not everybody builds.
bool has_sibling_program(const std::string& name);
// The program of that name, e.g. starling-trainer. Throws Error if it is not there.
std::filesystem::path sibling_program(const std::string& name);

}  // namespace starling
