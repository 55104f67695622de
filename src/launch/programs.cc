#include "launch/programs.h"

#include <fmt/format.h>

#include "base/error.h"

namespace starling {

namespace {

std::filesystem::path beside(const std::string& name) { return own_program().parent_path() / name; }

}  // namespace

std::filesystem::path own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

bool has_sibling_program(const std::string& name) { return std::filesystem::exists(beside(name)); }

std::filesystem::path sibling_program(const std::string& name) {
  if (!has_sibling_program(name)) {
    throw Error(fmt::format("{} is missing beside the starling program", name),
                "build it with `make`; it needs libtorch-dev");
  }
  return beside(name);
}

}  // namespace starling
