// How a worker reports to its launcher: one JSON object a line.
#pragma once

#include <exception>
#include <nlohmann/json_fwd.hpp>

#include "job/job.h"

namespace starling {

// Does nothing if there is no launcher.
void report_event(const Job& job, const nlohmann::json& event);

// Reports an exception in flight as the reason this worker ends.
void report_error(const Job& job, const std::exception& error);

// From here on an exception that nobody catches is reported before it ends the process.
void report_uncaught(const Job& job);

}  // namespace starling
