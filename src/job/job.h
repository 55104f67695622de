// Job: what a worker process must know to find the others. The launcher passes it in the
// environment, and this is the one place that reads it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/names.h"
#include "job/encryption.h"

namespace starling {

// What goes between ranks: links of their own, or MPI's messages (net/mpi_comm.h).
enum class Transport : std::uint8_t { tcp, mpi };
constexpr Names<2> names_of(Transport) { return {"transport", {"tcp", "mpi"}}; }

struct Job {
  int rank = 0;
  int size = 1;        // workers and, behind them, servers
  int local_size = 1;  // how many of the workers share this machine
  Transport transport = Transport::tcp;
  std::string rendezvous;  // host:port where rank 0 listens; not over MPI
  std::string secret;      // known to this job's workers only
  std::string guest_of;    // to join a job that runs: doors of members, host:port,host:port
  int listen_fd = -1;      // rank 0: the socket that already listens there
  int events_fd = -1;      // where to report progress, or -1
  std::chrono::seconds timeout{60};  // for any one operation
  Encryption encryption;             // the same everywhere
  std::string interface;             // in a lab: this worker's own network interface
  std::string network;      // by which it calls and is called: see net/own_address.h; or empty
  std::string board;        // the file to write on what this worker does, or empty
  std::string timeline;     // the folder for the timeline's parts, or empty
  std::string checkpoints;  // the folder for what they keep of their state, or empty
  std::string resume;       // the manifest of the checkpoint that they go on from, or empty
  std::string settings;     // TOML text, for what the workers run
  std::string terms;        // what of it all must have alike, see job/terms.h
};

// The job that the launcher describes, or the engine that has started this process (job/engine_place.h), or a
// job of one worker if there was neither. Throws Error on values that make no sense.
Job job_from_environment();

// Its part that is the same however the job was found: what goes between machines is encrypted unless
// it is said otherwise.
Encryption encryption_from_environment();

// The variables that describe a job, for the launcher to set.
inline constexpr const char* kRankVariable = "STARLING_RANK";
inline constexpr const char* kSizeVariable = "STARLING_SIZE";
inline constexpr const char* kLocalSizeVariable = "STARLING_LOCAL_SIZE";
inline constexpr const char* kTransportVariable = "STARLING_TRANSPORT";
inline constexpr const char* kRendezvousVariable = "STARLING_RENDEZVOUS";
inline constexpr const char* kGuestVariable = "STARLING_GUEST_OF";
inline constexpr const char* kSecretVariable = "STARLING_SECRET";
inline constexpr const char* kListenVariable = "STARLING_LISTEN_FD";
inline constexpr const char* kEventsVariable = "STARLING_EVENTS_FD";
inline constexpr const char* kTimeoutVariable = "STARLING_TIMEOUT_SECONDS";
inline constexpr const char* kTlsVariable = "STARLING_TLS";
inline constexpr const char* kCertificatesVariable = "STARLING_CERTIFICATES";
inline constexpr const char* kInterfaceVariable = "STARLING_INTERFACE";
inline constexpr const char* kNetworkVariable = "STARLING_NETWORK";
inline constexpr const char* kBoardVariable = "STARLING_BOARD";
inline constexpr const char* kTimelineVariable = "STARLING_TIMELINE";
inline constexpr const char* kCheckpointsVariable = "STARLING_CHECKPOINTS";
inline constexpr const char* kResumeVariable = "STARLING_RESUME";
inline constexpr const char* kSettingsVariable = "STARLING_SETTINGS";
inline constexpr const char* kLogVariable = "STARLING_LOG";

// STARLING_LOG, or "warn".
std::string log_level_from_environment();

}  // namespace starling
