// A host discovery script: a program of the user's that prints which hosts there are now and how many
// workers each may have, "name:slots" a line. Horovod's elastic jobs are told so.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <string>
#include <vector>

#include "launch/hosts.h"

namespace starling {

// What a script has printed. Where a line has no number of slots, `usual_slots` is meant, unless that is
// 0. Throws Error on anything else, and on hosts that are not this machine.
std::vector<HostSlots> parse_host_slots(const std::string& text, int usual_slots);

struct ScriptEnd {
  std::string printed;
  std::string error;      // in words, if it did not end well
  bool has_said = false;  // it has run to its own end, well or not
};
// Runs it without waiting: `on_end` is called in the loop. A script that takes too long is killed.
void run_host_script(asio::io_context& io, const std::string& path,
                     std::function<void(const ScriptEnd&)> on_end);

// Runs it until it has named enough slots. Throws Error if the first time does not work out, or if there
// are not enough within `patience`.
std::vector<HostSlots> await_host_slots(const std::string& path, int usual_slots, int enough,
                                        std::chrono::seconds patience);

}  // namespace starling
