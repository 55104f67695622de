// Running the built `starling` to its end.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/process.h"

namespace starling {

// With a training that has no bound of its own, on a loaded machine.
inline constexpr auto kTrainingPatience = 120s;

struct Ran {
  std::string status;  // as Process::wait tells it
  std::string out;
  std::string err;

  // Whether it was refused as it should be: not by a crash or a usage text, but in one line on
  // stderr, and, if JSON was asked for, in one object of it.
  bool in_one_error_line() const {
    if (!err.starts_with("error: ") || !err.ends_with("\n")) return false;
    if (lines_of(err).size() != 1) return false;
    const std::string said = err.substr(7, err.size() - 8);
    return out.empty() ||
           nlohmann::json::parse(out, nullptr, false) == nlohmann::json{{"error", said}};
  }
};

inline Ran starling_program(std::vector<std::string> arguments,
                            std::chrono::milliseconds limit = 60s) {
  arguments.insert(arguments.begin(), STARLING_PROGRAM);
  Process process(arguments);
  const std::string status = process.wait(limit);
  return {status, process.out(), process.err()};
}

}  // namespace starling
