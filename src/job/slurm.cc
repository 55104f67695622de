#include "job/slurm.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"

namespace starling {

namespace {

constexpr int kMostTasks = 4096, kMostCores = 1 << 16;

}  // namespace

std::optional<EnginePlace> slurm_place(const Variables& variables) {
  const std::string step = variables.text("SLURM_STEP_ID");
  const std::string nodes = variables.text("SLURM_STEP_NODELIST");
  const int size = variables.number("SLURM_STEP_NUM_TASKS", 0, 1, kMostTasks);
  if (step.empty() || nodes.empty() || size == 0) return std::nullopt;
  EnginePlace place;
  place.engine = "Slurm";
  place.more = "srun -n";
  place.size = size;
  place.rank = variables.number("SLURM_PROCID", 0, 0, size - 1);
  place.machines = variables.number("SLURM_STEP_NUM_NODES", 1, 1, size);
  place.machine = variables.number("SLURM_NODEID", 0, 0, place.machines - 1);
  place.local_size = tasks_on_node(
      variables.text("SLURM_STEP_TASKS_PER_NODE", std::to_string(size)), place.machine);
  place.local_rank = variables.number("SLURM_LOCALID", 0, 0, place.local_size - 1);
  place.cores = variables.number("SLURM_CPUS_ON_NODE", 0, 1, kMostCores);
  const std::string array = variables.text("SLURM_ARRAY_JOB_ID");
  const std::string job = array.empty()
                              ? variables.text("SLURM_JOB_ID")
                              : fmt::format("{}_{}", array, variables.text("SLURM_ARRAY_TASK_ID"));
  place.job = fmt::format("slurm-{}.{}", job, step);
  // What is left of a job that was put back into the queue must not be taken for one of the next.
  const std::string life = place.job + "/" + variables.text("SLURM_RESTART_COUNT", "0");
  place.rendezvous = fmt::format("{}:{}", first_host(nodes), port_for(life));
  return place;
}

std::string first_host(const std::string& hosts) {
  const std::size_t end = hosts.find_first_of(",[");
  std::string host = hosts.substr(0, end);
  if (end != std::string::npos && hosts[end] == '[') {
    const std::size_t number = end + 1;
    host += hosts.substr(number, hosts.find_first_of("-,]", number) - number);
    const std::size_t behind = hosts.find(']', number);
    if (behind != std::string::npos) {
      host += hosts.substr(behind + 1, hosts.find(',', behind) - behind - 1);
    }
  }
  return host;
}

int tasks_on_node(const std::string& tasks_per_node, int node) {
  const char* at = tasks_per_node.c_str();
  for (int first = 0; *at != '\0';) {
    char* end = nullptr;
    const long tasks = std::strtol(at, &end, 10);
    long nodes = 1;
    if (end != at && *end == '(' && end[1] == 'x') {
      nodes = std::strtol(end + 2, &end, 10);
      if (*end == ')') ++end;
    }
    if (tasks < 1 || tasks > kMostTasks || nodes < 1 || nodes > kMostTasks) break;
    first += static_cast<int>(nodes);
    if (node < first) return static_cast<int>(tasks);
    if (*end != ',') break;
    at = end + 1;
  }
  throw Error(
      fmt::format("SLURM_STEP_TASKS_PER_NODE is '{}', without node {}", tasks_per_node, node),
      "start the program with srun, which sets it");
}

}  // namespace starling
