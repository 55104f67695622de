// What the settings mean for the parameter servers.
#pragma once

#include "server/server.h"
#include "strategy/settings.h"

namespace starling {

// How many servers there are, and how many of them are processes of their own, behind the workers.
int server_count(const Settings& settings);
int server_processes(const Settings& settings);
// The rank of server 0.
int first_server(const Settings& settings);

// How many workers share a proxy.
int group_size(const Settings& settings);

ServerOptions server_options(const Settings& settings);

// Throws Error, in one sentence, if the choices do not go together.
void check_servers(const Settings& settings);
bool servers_survive_losses(const Settings& settings);

}  // namespace starling
