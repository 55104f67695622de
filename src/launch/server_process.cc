#include "launch/server_process.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "job/session.h"
#include "job/traffic.h"
#include "job/worker_events.h"
#include "strategy/groups.h"
#include "strategy/server_plan.h"

namespace starling {

namespace {

// All that it has sent and received, under the names that the run's summary has for it.
void report_served(const Job& job, const Ledger& ledger, const Server& server,
                   const KernelCount& kernel) {
  const ByteCount sent = ledger.total(Direction::sent);
  const ByteCount received = ledger.total(Direction::received);
  nlohmann::json event = {{"event", "served"},
                          {"payload_bytes_sent", sent.payload},
                          {"wire_bytes_sent", sent.wire},
                          {"payload_bytes_received", received.payload},
                          {"wire_bytes_received", received.wire},
                          {"training_bytes_sent", server.training_bytes_sent()}};
  if (const auto counted = kernel.so_far()) {
    event["kernel_bytes_sent"] = counted->sent_bytes;
    event["kernel_bytes_received"] = counted->received_bytes;
  }
  report_event(job, event);
}

}  // namespace

void run_server(const Job& job) {
  if (job.settings.empty()) {
    throw Error("`starling serve` is started by `starling train` and `starling launch`");
  }
  Settings settings;
  read_settings(job.settings, "the launcher's settings", settings);
  ServerOptions options = server_options(settings);
  options.timeout = job.timeout;
  const KernelCount kernel(job);
  Session session(job);
  const Running traffic(report_traffic(job, session.comm()));
  Server server(serving_group(session.comm()), options);
  session.loop().run(server.serve());  // it has deadlines of its own
  report_served(job, session.comm().ledger(), server, kernel);
}

}  // namespace starling
