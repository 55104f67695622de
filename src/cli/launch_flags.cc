#include "cli/launch_flags.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "base/units.h"
#include "job/encryption.h"
#include "job/engine_place.h"
#include "job/job.h"
#include "launch/lab.h"
#include "net/mpi_comm.h"
#include "strategy/server_plan.h"

namespace starling {

void LaunchFlags::add_to(CLI::App& command) {
  const char* group = "Several machines";
  command.add_option("--machines", machines_, "how many machines run this same command")
      ->check(CLI::Range(1, 1024))
      ->group(group);
  command.add_option("--machine", machine_, "which of them this is, from 0")->group(group);
  command.add_option("--rendezvous", rendezvous_, "host:port on machine 0 where all meet")
      ->group(group);
  command
      .add_option("--hosts", hosts_,
                  "start workers on these machines by ssh, so many on each, e.g. a:4,b:4; the "
                  "program is at the same place on all")
      ->group(group);
  command
      .add_option("--rsh", rsh_,
                  "with --hosts: what to use instead of ssh, e.g. \"ssh -p 2222\"; it gets the "
                  "host and a command")
      ->group(group);
  command
      .add_option("-x", exports_,
                  "with --hosts: an environment variable for the workers, NAME or NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  command
      .add_option("--interface", network_,
                  "by which network machines reach each other, e.g. eth1 or 10.0.0.0/24; by "
                  "default the one that leads to the rendezvous")
      ->group(group);
  command
      .add_option("--secret-file", secret_file_,
                  "a file with the same secret words on every machine")
      ->group(group);
  command
      .add_option(
          "--tls", tls_,
          "encrypt what goes between machines (auto), everything (on) or nothing (off), with a "
          "key from the secret")
      ->check(CLI::IsMember(std::vector<std::string>{"auto", "on", "off"}))
      ->group(group);
  command
      .add_option(
          "--certificates", certificates_,
          "instead of that key: files in PEM with the authority's certificate, this machine's "
          "and its key, e.g. ca.pem,own.pem,key.pem")
      ->group(group);
  command
      .add_option(
          "--transport", transport_,
          "what goes between workers: tcp, or under mpirun also mpi, with as many workers as "
          "it has started processes")
      ->check(CLI::IsMember(std::vector<std::string>{"tcp", "mpi"}))
      ->capture_default_str()
      ->group(group);
  command.add_option("--lab", lab_,
                     "run on hosts of their own with slow links, e.g. 6x100mbit, or on a lab that "
                     "is up (see `starling lab`); needs root");
  command.add_option(
      "--memory", memory_,
      "with --lab 6x100mbit: how much each host has, e.g. 1g or 512MB; a worker that "
      "takes more is killed");
  command
      .add_option("--restarts", restarts_,
                  "with --elastic: start crashed workers again, so many times in all")
      ->check(CLI::Range(0, 1'000'000));
  command.add_option("--spot-notice", spot_notice_,
                     "with --elastic: a program that is run every 2 s on each machine; once it "
                     "succeeds, the machine goes soon, and its workers leave");
  command.add_option("--timeout", timeout_seconds_, "seconds that one exchange may take")
      ->check(CLI::Range(1, 86'400));
  command
      .add_option("--stall", stall_,
                  "say who waits for whom when nothing has moved for that long, or off")
      ->capture_default_str();
}

namespace {

std::chrono::nanoseconds patience_of(const std::string& stall) {
  if (stall == "off") return std::chrono::nanoseconds(0);
  const std::chrono::nanoseconds patience = parse_duration(stall);
  if (patience < std::chrono::seconds(1)) {
    throw Error(fmt::format("--stall {} is less than a second", stall),
                "write it like 20s, 300s or off");
  }
  return patience;
}

}  // namespace

namespace {

std::string read_secret(const std::string& path) {
  std::ifstream file(path);
  std::string secret;
  std::getline(file, secret);
  if (secret.size() < 16) {
    throw Error(fmt::format("{} holds no secret of at least 16 characters", path),
                "make one with `openssl rand -hex 16`");
  }
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & S_IRWXO) != 0) {
    throw Error(fmt::format("everybody on this machine can use the secret in {}", path),
                fmt::format("run `chmod o= {}`", path));
  }
  return secret;
}

}  // namespace

void LaunchFlags::take_mpi(LaunchPlan& plan) const {
  check_has_mpi();
  plan.mpi = mpi_place();
  const auto refuse = [](const char* flag, const char* why) {
    throw Error(fmt::format("{} and --transport mpi do not go together", flag), why);
  };
  if (machines_ > 1) refuse("--machines", "mpirun knows the machines");
  if (!lab_.empty()) refuse("--lab", "mpirun knows nothing of its hosts");
  if (restarts_ > 0) refuse("--restarts", "MPI cannot do without a process");
  if (tls_ == "on") refuse("--tls on", "MPI does not encrypt");
  if (!certificates_.empty()) refuse("--certificates", "MPI does not encrypt");
}

void LaunchFlags::take_ranks(const LaunchPlan& plan, int asked_workers, Settings& settings) {
  if (!plan.mpi) return;
  if (settings.elastic.on) {
    throw Error("--elastic and --transport mpi do not go together",
                "MPI's processes are the same from the first to the last; use --transport tcp");
  }
  const int servers = server_processes(settings), workers = plan.mpi->size - servers;
  if (workers < 1 || (asked_workers > 0 && asked_workers != workers)) {
    const int wanted = std::max(asked_workers, 1);
    throw Error(
        fmt::format("{} workers and {} servers are not the {} processes that mpirun has started",
                    wanted, servers, plan.mpi->size),
        fmt::format("start as many with `mpirun -np {}`", wanted + servers));
  }
  settings.workers = workers;
}

namespace {

// NAME stands for what it is here. What workers log, and where Python looks for modules, goes without
// saying.
std::vector<std::string> exported(const std::vector<std::string>& given) {
  std::vector<std::string> variables;
  for (const char* usual : {kLogVariable, "OMP_NUM_THREADS", "PYTHONPATH"}) {
    if (const char* value = std::getenv(usual))
      variables.push_back(fmt::format("{}={}", usual, value));
  }
  for (const std::string& each : given) {
    const std::string name = each.substr(0, each.find('='));
    const char* value = std::getenv(name.c_str());
    if (name.empty() || (name.size() == each.size() && value == nullptr)) {
      throw Error(fmt::format("-x {}: there is no such variable here", each),
                  "give it a value, like -x NAME=VALUE");
    }
    variables.push_back(name.size() < each.size() ? each : fmt::format("{}={}", name, value));
  }
  return variables;
}

}  // namespace

// Each process that an engine has started launches one worker, and all of them are one job.
void LaunchFlags::take_place(LaunchPlan& plan) const {
  if (std::getenv(kSizeVariable) != nullptr) return;  // of a job that we are in ourselves
  plan.place = engine_place();
  if (!plan.place) return;
  plan.machines = plan.place->size;
  plan.machine = plan.place->rank;
  if (rendezvous_.empty()) plan.rendezvous = plan.place->rendezvous;
  if (plan.secret.empty()) plan.secret = secret_of(*plan.place);
}

int LaunchFlags::workers_for(LaunchPlan& plan, int asked, int usual) {
  if (plan.place) {
    const EnginePlace& place = *plan.place;
    if (asked > 0 && asked != place.size) {
      throw Error(
          fmt::format("{} workers, and {} has started {} processes", asked, place.engine,
                      place.size),
          fmt::format("start as many with `{} {}`, or leave the number out", place.more, asked));
    }
    return place.size;
  }
  if (plan.hosts.empty()) return asked > 0 ? asked : usual;
  plan.hosts = filled(plan.hosts, asked > 0 ? asked : slots_of(plan.hosts));
  return slots_of(plan.hosts);
}

LaunchPlan LaunchFlags::plan() const {
  LaunchPlan plan;
  plan.machines = machines_;
  plan.machine = machine_;
  plan.rendezvous = rendezvous_;
  plan.timeout = std::chrono::seconds(timeout_seconds_);
  plan.stall = patience_of(stall_);
  plan.lab = lab_;
  plan.restarts = restarts_;
  plan.spot_notice = spot_notice_;
  plan.network = network_;
  plan.tls = tls_;
  if (!certificates_.empty())
    TlsKeys{read_certificates(certificates_)};  // refuses what it cannot use
  plan.certificates = certificates_;
  if (!memory_.empty()) {
    if (lab_.empty()) {
      throw Error("--memory is for the hosts of a lab", "give --lab too, e.g. --lab 6x100mbit");
    }
    plan.host_memory_bytes = parse_host_memory(memory_);
  }
  if (transport_ == name_of(Transport::mpi)) take_mpi(plan);
  if (!secret_file_.empty()) plan.secret = read_secret(secret_file_);
  if (!hosts_.empty()) {
    if (machines_ > 1)
      throw Error("--hosts starts all machines", "leave out --machines, or --hosts");
    if (!lab_.empty()) throw Error("a lab is on one machine", "leave out --hosts, or --lab");
    plan.hosts = parse_hosts(hosts_);
    plan.rsh = rsh_;
    plan.exports = exported(exports_);
    return plan;
  }
  if (!rsh_.empty() || !exports_.empty()) {
    throw Error(rsh_.empty() ? "-x is for --hosts" : "--rsh is for --hosts",
                "give --hosts too, e.g. --hosts a:4,b:4");
  }
  if (machines_ == 1 && lab_.empty() && !plan.mpi) take_place(plan);
  if (machines_ == 1) return plan;
  if (!lab_.empty()) throw Error("a lab is on one machine", "leave out --machines, or --lab");
  if (machine_ < 0 || machine_ >= machines_) {
    throw Error(fmt::format("--machine {} cannot be", machine_),
                fmt::format("with {} machines it goes from 0 to {}", machines_, machines_ - 1));
  }
  if (rendezvous_.empty() || secret_file_.empty()) {
    throw Error("several machines need --rendezvous and --secret-file",
                "e.g. --rendezvous 10.0.0.1:29400 --secret-file secret.txt");
  }
  return plan;
}

}  // namespace starling
