#include "job/traffic.h"

#include <nlohmann/json.hpp>

#include "job/worker_events.h"

namespace starling {

namespace {

using nlohmann::json;

json by_purpose(const Ledger& ledger, Direction direction) {
  json counts = json::object();
  for (std::size_t i = 0; i < kPurposeNames.size(); ++i) {
    const ByteCount bytes = ledger.total(direction, static_cast<Purpose>(i));
    counts[std::string(kPurposeNames[i])] = {{"payload", bytes.payload}, {"wire", bytes.wire}};
  }
  return counts;
}

// [[peer, bytes on the wire], ...], of those with whom there was traffic.
json by_peer(const Comm& comm, Direction direction) {
  json counts = json::array();
  for (int peer = 0; peer < comm.size(); ++peer) {
    const std::uint64_t bytes = comm.ledger().total_with(peer, direction).wire;
    if (bytes > 0) counts.push_back({peer, bytes});
  }
  return counts;
}

}  // namespace

Task<> report_traffic(Job job, Comm& comm) {
  const Time start = comm.loop().now();
  for (Time next = start;; next += std::chrono::seconds(1)) {
    co_await sleep_until(comm.loop(), next);
    const Ledger& ledger = comm.ledger();
    json event = {{"event", "network"},
                  {"time", std::chrono::duration<double>(comm.loop().now() - start).count()},
                  {"sent", by_purpose(ledger, Direction::sent)},
                  {"received", by_purpose(ledger, Direction::received)},
                  {"sent_to", by_peer(comm, Direction::sent)}};
    if (const auto kernel = own_interface_count(job.interface)) {
      event["kernel_sent"] = kernel->sent_bytes;
      event["kernel_received"] = kernel->received_bytes;
    }
    report_event(job, event);
  }
}

std::optional<InterfaceCount> KernelCount::so_far() const {
  const auto now = own_interface_count(interface_);
  if (!now || !at_start_) return std::nullopt;
  return InterfaceCount{now->sent_bytes - at_start_->sent_bytes,
                        now->received_bytes - at_start_->received_bytes};
}

}  // namespace starling
