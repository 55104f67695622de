// Spark as an engine: its driver, tasks and how they meet are Python's (python/starling/spark).
#pragma once

#include <string>
#include <vector>

namespace starling {

// Becomes spark-submit with our driver. `options` are its own; `command` are the words of `starling
// train` or `starling launch` that each of the tasks runs for one worker. Throws Error if it cannot.
[[noreturn]] void become_spark_submit(int workers, const std::vector<std::string>& options,
                                      const std::vector<std::string>& command);

}  // namespace starling
