#pragma once

#include "server/server.h"

namespace starling {

// A server from its first request to its last.
inline Task<> serve(Comm& comm, const ServerOptions& options) {
  Server server(comm, options);
  co_await server.serve();
}

}  // namespace starling
