// The live page: a small HTTP server that shows a run to whoever opens it, and changes nothing.
//
//   /         the page
//   /state    the run as JSON, which the page asks for twice a second
//   /metrics  the same for Prometheus
//
// On the loopback interface it is open to this machine, and to no page of another name (a web site
// can make its own name point at 127.0.0.1). On any other interface it wants a token, in the
// address (?token=) or as a bearer's.
#pragma once

#include <memory>
#include <string>

#include "report/live_run.h"

namespace starling {

struct LiveAddress {
  std::string host = "127.0.0.1";
  int port = 8070;
  bool any_port = true;  // if that one is taken, or it is 0

  bool is_loopback() const;
};

// "host:port", "port", or empty for the default. Throws Error for anything else.
LiveAddress parse_live_address(const std::string& text);

class LiveServer {
 public:
  // Throws Error if nobody can listen there. An empty token means that none is asked for.
  LiveServer(const LiveAddress& address, std::string token, const LiveRun& run);
  // Gives pages that are open a moment to see how the run has ended; then hangs up on everybody.
  ~LiveServer();

  // What to open in a browser.
  std::string url() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling
