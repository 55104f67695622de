// The table that all-reduce chooses its algorithm by (exchange/choice.h), from what a benchmark has
// measured.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace starling {

// From the rows of `starling bench exchange`: for every number of processes, which algorithm was the
// fastest up to which length. Between two lengths that were measured the border is in the middle, by
// ratio.
std::string choice_table(const nlohmann::json& rows);

}  // namespace starling
