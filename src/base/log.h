// Logging goes to standard error, one line an event, so that standard output stays for results.
#pragma once

#include <spdlog/spdlog.h>

namespace starling {

// Names this process in its log lines ("rank 2", "launcher") and sets the level, which is "warn"
// unless the user asks for more with STARLING_LOG or --verbose.
void start_log(const std::string& who, spdlog::level::level_enum level);

}  // namespace starling
