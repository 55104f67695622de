#include "job/mpi_place.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "job/slurm.h"

namespace starling {

namespace {

constexpr int kMostProcesses = 4096;

struct Dialect {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* export_flag;  // of its mpirun; none: it is srun's
};
constexpr Dialect kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                              "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
                              "-x {}={}"};
constexpr Dialect kMpich = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
                            "-genv {} {}"};
constexpr Dialect kSrun = {"PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE",
                           nullptr};

const Dialect* spoken(const Variables& variables) {
  for (const Dialect* each : {&kOpenMpi, &kMpich, &kSrun}) {
    if (!variables.text(each->rank).empty() && !variables.text(each->size).empty()) return each;
  }
  return nullptr;
}

int number(const Variables& variables, const char* variable, int low, int high) {
  const std::string text = variables.text(variable);
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);  // Slurm's "2(x3)" is 2
  if (value < low || value > high) {
    throw Error(fmt::format("{} is '{}'", variable, text),
                fmt::format("it must be a whole number from {} to {}", low, high));
  }
  return value;
}

// Which may speak to its tasks as MPICH does; of mpirun's own helpers it says other numbers.
bool is_sruns(const Dialect& dialect, const Variables& variables) {
  return &dialect == &kSrun ||
         (variables.text("SLURM_PROCID") == variables.text(dialect.rank) &&
          variables.text("SLURM_STEP_NUM_TASKS") == variables.text(dialect.size));
}

MpiPlace place_in(const Dialect& dialect, const Variables& variables) {
  const int size = number(variables, dialect.size, 1, kMostProcesses);
  const int rank = number(variables, dialect.rank, 0, size - 1);
  const auto local = [&](const char* variable, int low, int high, int else_) {
    return variables.text(variable).empty() ? else_ : number(variables, variable, low, high);
  };
  const int local_size = local(dialect.local_size, 1, size, size);
  return {rank, size, local(dialect.local_rank, 0, size - 1, rank % local_size), local_size};
}

// The process that has started all of a job's on this machine. MPICH gives a job no name that they would
// know.
std::string proxy_of_mpich() {
  for (long process = ::getppid(); process > 1;) {
    std::ifstream file(fmt::format("/proc/{}/stat", process));
    std::string words;
    std::getline(file, words);
    const std::size_t name = words.find('('), end = words.rfind(')');
    if (name == std::string::npos || end == std::string::npos) break;
    if (std::string_view(words).substr(name, end - name) == "(hydra_pmi_proxy") {
      return std::to_string(process);
    }
    process = std::atol(words.substr(std::min(words.size(), end + 4)).c_str());  // behind ") S "
  }
  return "";
}

// What tells it from others; empty if it cannot be told.
std::string job_of(const Dialect& dialect, const Variables& variables) {
  if (&dialect == &kMpich) return proxy_of_mpich();
  return variables.text("PMIX_NAMESPACE", variables.text("OMPI_MCA_ess_base_jobid"));
}

std::string host_of_rank_0(const EnginePlace& place, const Variables& variables) {
  if (place.machines == 1) return "127.0.0.1";
  return first_host(variables.text("SLURM_JOB_NODELIST"));
}

}  // namespace

MpiPlace mpi_place(const Variables& variables) {
  const Dialect* dialect = spoken(variables);
  if (dialect == nullptr) {
    throw Error("the transport is mpi, and no mpirun has started this process",
                "start it by `mpirun -np 4 ...`, or leave out --transport");
  }
  return place_in(*dialect, variables);
}

std::optional<EnginePlace> mpirun_place(const Variables& variables) {
  constexpr int kMostPort = 65'535;
  const Dialect* dialect = spoken(variables);
  if (dialect == nullptr || is_sruns(*dialect, variables)) return std::nullopt;
  const MpiPlace mpi = place_in(*dialect, variables);
  EnginePlace place;
  place.engine = "mpirun";
  place.more = "mpirun -np";
  place.rank = mpi.rank;
  place.size = mpi.size;
  if (!variables.text(dialect->local_size).empty()) {  // else who knows who is where
    place.local_rank = mpi.local_rank;
    place.local_size = mpi.local_size;
  }
  place.machines = (place.size + place.local_size - 1) / place.local_size;
  place.machine = place.rank / place.local_size;
  const std::string job = job_of(*dialect, variables);
  place.job = "mpirun-" + job;
  const std::string host = variables.text("MASTER_ADDR", host_of_rank_0(place, variables));
  const int port =
      variables.number("MASTER_PORT", job.empty() ? 0 : port_for(place.job), 1, kMostPort);
  if (place.size > 1 && (host.empty() || port == 0)) {
    const auto flag = [&](const char* name, const char* value) {
      return fmt::format(fmt::runtime(dialect->export_flag), name, value);
    };
    throw Error(fmt::format("mpirun has started {} processes, and does not say where rank 0 is",
                            place.size),
                fmt::format("say so: `mpirun {} {} ...`", flag("MASTER_ADDR", "HOST"),
                            flag("MASTER_PORT", "29500")));
  }
  place.rendezvous = host_and_port(host, port);
  return place;
}

}  // namespace starling
