#include "launch/other_launchers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace starling {

StorePlace store_beside(const std::string& rendezvous, int chosen_port) {
  const std::size_t colon = rendezvous.rfind(':');
  if (colon == std::string::npos) return {rendezvous, chosen_port};  // the workers will complain
  std::string host = rendezvous.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const int port = chosen_port > 0 ? chosen_port : std::atoi(&rendezvous[colon + 1]) + 1;
  return {host, port};
}

std::vector<std::string> variables_of_others(const WorkerPlace& worker, const StorePlace& store) {
  std::vector<std::string> variables = {
      fmt::format("MASTER_ADDR={}", store.host),
      fmt::format("MASTER_PORT={}", store.port),
      fmt::format("RANK={}", worker.rank),
      fmt::format("WORLD_SIZE={}", worker.size),
      fmt::format("LOCAL_RANK={}", worker.local_rank),
      fmt::format("LOCAL_WORLD_SIZE={}", worker.local_size),
      fmt::format("HOROVOD_RANK={}", worker.rank),
      fmt::format("HOROVOD_SIZE={}", worker.size),
      fmt::format("HOROVOD_LOCAL_RANK={}", worker.local_rank),
      fmt::format("HOROVOD_LOCAL_SIZE={}", worker.local_size),
      fmt::format("HOROVOD_CROSS_RANK={}", worker.machine),
      fmt::format("HOROVOD_CROSS_SIZE={}", worker.machines),
  };
  char own[256] = "";
  ::gethostname(own, sizeof(own) - 1);
  variables.push_back(
      fmt::format("HOROVOD_HOSTNAME={}", worker.host.empty() ? own : worker.host));
  return variables;
}

}  // namespace starling
