// What a run folder holds, read back. Runs may have been cut off at any time, and their files may
// be anybody's: lines that are not whole JSON objects are passed over, what is missing is empty.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "job/run_summary.h"

namespace starling {

struct RunData {
  std::string name;                     // of its folder
  std::string label;                    // for people; the name, unless a report finds a better one
  std::string settings;                 // as TOML
  RunSummary summary;                   // without an accuracy if the run did not end
  std::vector<nlohmann::json> metrics;  // of the lead, over time
  std::vector<nlohmann::json> network;  // of every worker, each second
};

// Throws Error if there is no run in that folder.
RunData read_run(const std::filesystem::path& folder);

// Of a file in it; empty if there is none. Throws Error if it is too large.
std::string text_of(const std::filesystem::path& file);

// A number in an object, or the fallback, whatever stands there.
double number_in(const nlohmann::json& object, const char* key, double fallback = 0);
// All bytes on the wire, from counts by purpose.
double wire_in(const nlohmann::json& counts);

}  // namespace starling
