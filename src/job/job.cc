#include "job/job.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace starling {

namespace {

std::string text(const char* variable, std::string fallback = "") {
  const char* value = std::getenv(variable);
  return value == nullptr ? fallback : value;
}

template <class Number>
Number number(const char* variable, Number fallback, Number low, Number high) {
  const std::string value = text(variable);
  if (value.empty()) return fallback;
  Number parsed{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc() || end != value.data() + value.size() || parsed < low || parsed > high) {
    throw Error(fmt::format("{} is '{}'", variable, value),
                fmt::format("it must be a whole number from {} to {}", low, high));
  }
  return parsed;
}

}  // namespace

Job job_from_environment() {
  constexpr int kMaxWorkers = 4096;
  Job job;
  job.size = number(kSizeVariable, 1, 1, kMaxWorkers);
  job.rank = number(kRankVariable, 0, 0, job.size - 1);
  job.local_size = number(kLocalSizeVariable, job.size, 1, job.size);
  job.rendezvous = text(kRendezvousVariable);
  job.guest_of = text(kGuestVariable);
  job.door_port = number(kDoorPortVariable, 0, 1, 65'535);
  job.secret = text(kSecretVariable);
  job.listen_fd = number(kListenVariable, -1, 0, 1 << 20);
  job.events_fd = number(kEventsVariable, -1, 0, 1 << 20);
  job.timeout = std::chrono::seconds(number(kTimeoutVariable, 60, 1, 86'400));
  job.encryption = encryption_from_environment();
  job.interface = text(kInterfaceVariable);
  job.board = text(kBoardVariable);
  job.timeline = text(kTimelineVariable);
  job.checkpoints = text(kCheckpointsVariable);
  job.resume = text(kResumeVariable);
  job.settings = text(kSettingsVariable);
  if (job.size > 1 && (job.rendezvous.empty() || job.secret.empty())) {
    throw Error(
        fmt::format("{} workers need {} and {}", job.size, kRendezvousVariable, kSecretVariable),
        "start the program with `starling launch`, which sets them");
  }
  return job;
}

Encryption encryption_from_environment() {
  Encryption encryption{named<Encryption::Links>(text(kTlsVariable, "auto"))};
  const std::string certificates = text(kCertificatesVariable);
  if (!certificates.empty()) encryption.certificates = read_certificates(certificates);
  return encryption;
}

std::string log_level_from_environment() { return text(kLogVariable, "warn"); }

}  // namespace starling
