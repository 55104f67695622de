#include "job/engine_place.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>

#include "job/job.h"
#include "job/mpi_place.h"
#include "job/slurm.h"
#include "job/torchrun.h"
#include "job/user_key.h"

namespace starling {

Variables::Variables() : Variables([](const char* name) { return std::getenv(name); }) {}

std::optional<EnginePlace> engine_place(const Variables& variables) {
  // torchrun may itself have been started by mpirun or Slurm, once a machine, and mpirun's processes by Slurm.
  std::optional<EnginePlace> place = torchrun_place(variables);
  if (!place) place = mpirun_place(variables);
  if (!place) place = slurm_place(variables);
  if (place && place->size == 1) return std::nullopt;
  return place;
}

std::string secret_of(const EnginePlace& place) {
  const std::string given = Variables().text(kSecretVariable);
  return given.empty() ? secret_from_key(place.job + " " + place.rendezvous) : given;
}

std::string host_and_port(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

int port_for(const std::string& job) {
  constexpr std::uint32_t kFirst = 20'000, kPorts = 12'000;
  std::uint32_t hash = 2166136261;  // FNV-1a
  for (const char each : job) hash = (hash ^ static_cast<unsigned char>(each)) * 16777619;
  return static_cast<int>(kFirst + hash % kPorts);
}

}  // namespace starling
