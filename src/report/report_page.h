// The page of a report: whole, it needs nothing else, not even a network.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/run_report.h"

namespace starling {

// shown says of which runs lines are drawn in colours at first.
std::string report_page(std::span<const RunData> runs, std::size_t baseline,
                        const std::vector<bool>& shown, const RunReport& report);

}  // namespace starling
