// The launcher: starts a job's workers on this machine, watches over them, and sees to it that none
// stays behind.
//
// - Each worker leads a process group of its own, so that its children end with it.
// - It gets none of the launcher's open files but its pipe for events and, as rank 0, the socket that
//   listens.
// - What it prints comes out of ours, line by line behind its rank: "[2] ...".
// - If one fails, the others get a moment to notice by themselves, then SIGTERM, then SIGKILL.
//   Workers that can do without one another (survives_losses), or without a server, go on: then the
//   job has failed only if no worker ends well.
// - Where workers come and go, one that has crashed is started again, and asks those that are left to be
//   let in; the job has failed only if none ends well. A host discovery script may say who should run
//   (launch/host_book.h): then workers are started, or asked to leave by SIGTERM, as it changes. When a
//   machine is to be taken away (spot_notice), its workers are asked to leave, too.
// - On Ctrl-C or SIGTERM the lowest rank gets SIGTERM, and the others when it has ended: so it can end
//   its step, and save its model (an elastic one gets SIGINT, as SIGTERM asks it to leave). A second one ends all at once.
//   SIGUSR1, which Slurm can send some time before a job's end (--signal), does the same.
// - If the launcher itself dies, however suddenly, the kernel kills its workers (PR_SET_PDEATHSIG),
//   and a guardian process that sees the launcher's end of a pipe close kills what is left of their
//   groups.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/engine_place.h"
#include "job/mpi_place.h"
#include "launch/host_book.h"
#include "launch/hosts.h"

namespace starling {

struct LaunchPlan {
  std::vector<std::string> command;
  int workers = 1;  // on this machine
  // Parameter servers: processes of their own, behind the workers. Machines take them in turns, so that
  // none has all traffic, nor a shard and its copies.
  int servers = 0;
  std::vector<std::string> server_command;
  bool survives_losses = false;
  bool survives_lost_servers = false;  // as far as they are replicated
  // Workers come and go: how often one that has crashed is started again, all together, and, for
  // workers that are to join a job that runs, doors of its members (Job::guest_of).
  bool elastic = false;
  int restarts = 0;
  std::string guest_of;
  // Where the roster is kept outside of the job (launch/roster_store.h), or empty, and as which start of it;
  // 0: whichever is there.
  std::string store;
  std::uint64_t store_start = 0;
  // Where a host discovery script says who should run: itself, what it says where a line has no number,
  // what it has said so far, by which `workers` was found, and how many there may be at most.
  struct Discovery {
    std::string script;
    int usual_slots = 0;
    std::vector<HostSlots> found;
    int most_workers = 0;
    std::optional<Cooldown> cooldown;
  };
  std::optional<Discovery> discovery;
  // A program that is run every few seconds; once it ends well, this machine goes soon, and its workers
  // leave.
  std::string spot_notice;
  std::optional<int> reset_limit;   // after so many generations beyond the first the job has failed
  std::vector<std::string> places;  // beside its number, what each rank is in words; may be empty
  // Over MPI: mpirun starts a launcher for each rank, workers and servers alike, and this one is of that.
  std::optional<MpiPlace> mpi;
  int machines = 1;                  // how many machines run `workers` each
  int machine = 0;                   // which of them this is
  std::vector<int> shares;           // where they do not: how many workers each machine runs
  std::optional<EnginePlace> place;  // where an engine has put this launcher and its one worker
  std::string rendezvous;            // host:port of machine 0; only for more than one machine
  std::string secret;                // shared by all machines; made up here if there is only one
  std::string network;               // by which machines reach each other, see Job; may be empty
  int listen_fd = -1;                // a socket that listens at the rendezvous already, or -1
  std::chrono::seconds timeout{60};
  // After so long without a move it is said who waits for whom; never after nothing.
  std::chrono::nanoseconds stall = std::chrono::seconds(20);
  std::string run;  // the folder of results, by which people name a running job; may be empty
  std::string tls = "auto";     // as job/encryption.h names it
  std::string certificates;     // as it reads them, or empty
  std::string settings;         // handed to the workers, see Job
  std::string timeline_folder;  // where they leave their parts of the timeline, see Job
  std::string checkpoints;      // where they keep their state, and
  std::string resume;           // what they go on from, see Job
  // A lab to run in, each rank on a host of its own: its name, or a spec (launch/lab.h). Only for one
  // machine.
  std::string lab;
  // Limits of the hosts of a lab of its own: memory of each (0: none), and how many times slower
  // some are.
  std::uint64_t host_memory_bytes = 0;
  std::map<int, double> slow_hosts;
  // Is told each rank's process as it starts.
  std::function<void(int rank, int process)> on_start;
  // Where else than on this machine workers are started (launch/hosts.h), and how (launch/hosts_launcher.h).
  std::vector<HostSlots> hosts;
  std::string rsh;
  std::vector<std::string> exports;  // NAME=VALUE, for all of them
  bool prints_events = false;  // what workers report is printed, for a launcher on another machine

  int all_workers() const;
  int first_worker() const;  // of this machine
  std::vector<int> ranks_here() const;

  // Over MPI all launchers share a terminal and a run folder: only one of them uses it.
  bool speaks() const { return !mpi || mpi->rank == 0; }
  // Whether rank 0, which knows most of a run, is started here.
  bool has_first() const { return machine == 0 && speaks(); }
};

struct LaunchResult {
  int exit_code = 0;         // 128 and the signal's number if it was interrupted, as shells have it
  std::string error;         // one line: whose fault, and what it was; empty if all went well
  bool interrupted = false;  // by Ctrl-C or SIGTERM
  bool lost_others = false;  // no trouble of this machine's own: its workers have lost others
  bool left = false;         // its workers have, all that were there at last, and the others go on
  std::vector<std::string> losses;  // whom the job survived, one line each
};

// Ends whoever runs one job after another when somebody has stopped one of them. No Error: a run
// that fails may be passed over, this may not.
struct Interrupted : std::exception {
  explicit Interrupted(const LaunchResult& outcome) : exit_code(outcome.exit_code) {}
  const char* what() const noexcept override { return "interrupted"; }

  int exit_code;
};

// A line that a worker wrote to its events pipe.
using WorkerEvent = std::function<void(int rank, std::string_view line)>;

// That a worker has ended, and why if it did not end well or was told to.
using WorkerEnd = std::function<void(int rank, const std::string& reason)>;

// Runs the job to its end. Throws Error if it cannot even start.
LaunchResult launch(const LaunchPlan& plan, const WorkerEvent& on_event,
                    const WorkerEnd& on_end = {});

// A secret that nobody can guess.
std::string make_secret();

}  // namespace starling
