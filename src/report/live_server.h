// The live page: a small server that shows a run to whoever has its token, and changes nothing.
//
//   /         the page, which tells nothing by itself
//   /state    the run as JSON, which the page asks for twice a second
//   /metrics  the same for Prometheus
//
// The token is asked for everywhere: on loopback, too, where this machine's other users are, and web
// sites whose name points at 127.0.0.1. It goes in a header (Authorization: Bearer). The address that is
// printed has it behind a #, where browsers keep it to themselves: no log and no proxy sees it. Cookies
// would not do, as they go to all ports of a host, whoever listens there.
//
// On loopback it speaks plain HTTP, which nobody but root can listen to; on any other interface HTTPS,
// with a certificate of its own making whose fingerprint is printed.
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
  // Throws Error if nobody can listen there.
  LiveServer(const LiveAddress& address, std::string token, const LiveRun& run);
  // Gives pages that are open a moment to see how the run has ended; then hangs up on everybody.
  ~LiveServer();

  // What to open in a browser.
  std::string url() const;
  // Of its certificate; empty if it has none.
  std::string fingerprint() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling
