// What the settings mean for the parameter servers.
#pragma once

#include "runtime/group.h"
#include "server/server.h"
#include "strategy/settings.h"

namespace starling {

// How many servers there are for each slice of the model (strategy/grid.h), and how many processes of
// their own for all of them, behind the workers.
int server_count(const Settings& settings);
int server_processes(const Settings& settings);
// The place of server 0 among those who work on a slice.
int first_server(const Settings& settings);

// How many workers share a proxy.
int group_size(const Settings& settings);

// Those who may have blocks from an earlier generation, servers first: the server processes, or all
// workers where they serve as well. Of one of them.
Group block_holders(const Settings& settings, Comm& comm);

Chain server_chain(const Settings& settings);
ServerOptions server_options(const Settings& settings);

// Throws Error, in one sentence, if the choices do not go together.
void check_servers(const Settings& settings);
// Whether the others go on without a worker, and without a server.
bool servers_survive_losses(const Settings& settings);
bool survives_lost_servers(const Settings& settings);

}  // namespace starling
