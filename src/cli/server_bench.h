// starling bench server: push and pull between real processes over loopback TCP, beside a plain
// ZeroMQ program that does the same.
#pragma once

#include <CLI/CLI.hpp>

namespace starling {

void add_server_bench(CLI::App& bench);

}  // namespace starling
