#include "job/mpi_place.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace starling {

namespace {

constexpr int kMostProcesses = 4096;

struct Dialect {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};
constexpr Dialect kDialects[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE"},
};

const Dialect* spoken() {
  for (const Dialect& each : kDialects) {
    if (std::getenv(each.rank) != nullptr && std::getenv(each.size) != nullptr) return &each;
  }
  return nullptr;
}

int number(const char* variable, int low, int high) {
  const std::string_view text = std::getenv(variable);
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);  // Slurm's "2(x3)" is 2
  if (value < low || value > high) {
    throw Error(fmt::format("{} is '{}'", variable, text),
                fmt::format("it must be a whole number from {} to {}", low, high));
  }
  return value;
}

}  // namespace

bool is_under_mpirun() { return spoken() != nullptr; }

MpiPlace mpi_place() {
  const Dialect* dialect = spoken();
  if (dialect == nullptr) {
    throw Error("the transport is mpi, and no mpirun has started this process",
                "start it by `mpirun -np 4 ...`, or leave out --transport");
  }
  const int size = number(dialect->size, 1, kMostProcesses);
  const int rank = number(dialect->rank, 0, size - 1);
  const auto local = [](const char* variable, int low, int high, int else_) {
    return std::getenv(variable) == nullptr ? else_ : number(variable, low, high);
  };
  const int local_size = local(dialect->local_size, 1, size, size);
  return {rank, size, local(dialect->local_rank, 0, size - 1, rank % local_size), local_size};
}

}  // namespace starling
