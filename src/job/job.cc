#include "job/job.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "job/engine_place.h"
#include "job/mpi_place.h"
#include "job/variables.h"

namespace starling {

namespace {

// Of a program that an engine has started without any launcher of ours.
void take_place(const EnginePlace& place, Job& job) {
  job.size = place.size;
  job.rank = place.rank;
  job.local_size = place.local_size;
  if (job.rendezvous.empty()) job.rendezvous = place.rendezvous;
  job.secret = secret_of(place);
}

}  // namespace

Job job_from_environment() {
  constexpr int kMaxWorkers = 4096;
  const Variables variables;
  const auto text = [&](const char* name) { return variables.text(name); };
  const auto number = [&](const char* name, int fallback, int low, int high) {
    return variables.number(name, fallback, low, high);
  };
  Job job;
  job.size = number(kSizeVariable, 1, 1, kMaxWorkers);
  job.rank = number(kRankVariable, 0, 0, job.size - 1);
  job.local_size = number(kLocalSizeVariable, job.size, 1, job.size);
  job.transport = named<Transport>(variables.text(kTransportVariable, "tcp"));
  if (job.transport == Transport::mpi) {
    const MpiPlace place = mpi_place();
    job.size = place.size;
    job.rank = place.rank;
    job.local_size = place.local_size;
  }
  job.rendezvous = text(kRendezvousVariable);
  job.guest_of = text(kGuestVariable);
  job.secret = text(kSecretVariable);
  job.listen_fd = number(kListenVariable, -1, 0, 1 << 20);
  job.events_fd = number(kEventsVariable, -1, 0, 1 << 20);
  job.timeout = std::chrono::seconds(number(kTimeoutVariable, 60, 1, 86'400));
  job.encryption = encryption_from_environment();
  job.interface = text(kInterfaceVariable);
  job.network = text(kNetworkVariable);
  job.board = text(kBoardVariable);
  job.timeline = text(kTimelineVariable);
  job.checkpoints = text(kCheckpointsVariable);
  job.resume = text(kResumeVariable);
  job.settings = text(kSettingsVariable);
  if (text(kSizeVariable).empty() && job.transport == Transport::tcp) {
    if (const std::optional<EnginePlace> place = engine_place(variables)) take_place(*place, job);
  }
  if (job.size > 1 && job.transport == Transport::tcp &&
      (job.rendezvous.empty() || job.secret.empty())) {
    throw Error(
        fmt::format("{} workers need {} and {}", job.size, kRendezvousVariable, kSecretVariable),
        "start the program with `starling launch`, which sets them");
  }
  return job;
}

Encryption encryption_from_environment() {
  const Variables variables;
  Encryption encryption{named<Encryption::Links>(variables.text(kTlsVariable, "auto"))};
  const std::string certificates = variables.text(kCertificatesVariable);
  if (!certificates.empty()) encryption.certificates = read_certificates(certificates);
  return encryption;
}

std::string log_level_from_environment() { return Variables().text(kLogVariable, "warn"); }

}  // namespace starling
