#include "job/torchrun.h"

#include <fmt/format.h>

#include "base/error.h"

namespace starling {

std::optional<EnginePlace> torchrun_place(const Variables& variables) {
  constexpr int kMostWorkers = 4096, kMostPort = 65'535;
  if (variables.text("RANK").empty() || variables.text("WORLD_SIZE").empty()) return std::nullopt;
  EnginePlace place;
  place.engine = "torchrun";
  place.more = "torchrun --nproc-per-node";
  place.size = variables.number("WORLD_SIZE", 1, 1, kMostWorkers);
  place.rank = variables.number("RANK", 0, 0, place.size - 1);
  const int local_size = variables.number("LOCAL_WORLD_SIZE", 0, 1, place.size);
  place.local_rank =
      variables.number("LOCAL_RANK", 0, 0, (local_size > 0 ? local_size : place.size) - 1);
  // Who is not told knows of those below it.
  place.local_size = local_size > 0 ? local_size : place.local_rank + 1;
  place.machines = (place.size + place.local_size - 1) / place.local_size;
  place.machine = variables.number("GROUP_RANK", place.rank / place.local_size, 0, place.size - 1);
  const std::string host = variables.text("MASTER_ADDR");
  int port = variables.number("MASTER_PORT", 0, 1, kMostPort - 1);
  if (place.size > 1 && (host.empty() || port == 0)) {
    throw Error(
        fmt::format("WORLD_SIZE is {}, and MASTER_ADDR or MASTER_PORT is not set", place.size),
        "set them to the host of rank 0 and a free port there");
  }
  place.job = fmt::format("torchrun-{}-{}", host, port);
  // There torchrun listens itself, for torch.
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True") ++port;
  place.rendezvous = host_and_port(host, port);
  return place;
}

}  // namespace starling
