#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>

namespace starling {

void start_log(const std::string& who, spdlog::level::level_enum level) {
  auto logger = std::make_shared<spdlog::logger>("starling",
                                                 std::make_shared<spdlog::sinks::stderr_sink_st>());
  logger->set_pattern("%H:%M:%S.%e " + who + " %l: %v");
  logger->set_level(level);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace starling
