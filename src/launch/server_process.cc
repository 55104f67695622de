#include "launch/server_process.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "job/checkpoint.h"
#include "job/past.h"
#include "job/run_summary.h"
#include "job/session.h"
#include "job/traffic.h"
#include "job/worker_events.h"
#include "strategy/grid.h"
#include "strategy/server_plan.h"

namespace starling {

namespace {

// All that it has sent and received.
void report_served(const Job& job, const Ledger& ledger, const Server& server,
                   const KernelCount& kernel) {
  const ByteCount sent = ledger.total(Direction::sent);
  const ByteCount received = ledger.total(Direction::received);
  RankSummary summary;
  summary.role = RankSummary::Role::server;
  summary.payload_bytes_sent = sent.payload;
  summary.wire_bytes_sent = sent.wire;
  summary.payload_bytes_received = received.payload;
  summary.wire_bytes_received = received.wire;
  summary.training_bytes_sent = server.training_bytes_sent();
  if (const auto counted = kernel.so_far()) {
    summary.kernel_bytes_sent = counted->sent_bytes;
    summary.kernel_bytes_received = counted->received_bytes;
  }
  nlohmann::json event = as_json(summary);
  event["event"] = "served";
  report_event(job, event);
}

}  // namespace

void run_server(Job job) {
  if (job.settings.empty()) {
    throw Error("`starling serve` is started by `starling train` and `starling launch`");
  }
  Settings settings;
  read_settings(job.settings, "the launcher's settings", settings);
  job.terms = agreed_settings(settings);
  ServerOptions options = server_options(settings);
  options.timeout = job.timeout;
  Session session(job);
  const Running traffic(report_traffic(job, session.comm()));
  const std::optional<Snapshot> past = load_past(job, settings);
  Server server(serving_group(settings, session.comm()), options,
                past ? State::restoring(*past) : State());
  std::optional<CheckpointWriter> writer;
  if (!job.checkpoints.empty()) writer.emplace(job, job.checkpoints);
  server.on_save([&](std::uint64_t step) {
    if (!writer) return;
    Snapshot snapshot;
    server.visit_state(State::saving(snapshot));
    writer->write(step, session.comm().rank(), settings.workers, std::move(snapshot));
  });
  session.board().serves();
  session.loop().run(server.serve());  // it has deadlines of its own
  report_served(job, session.comm().ledger(), server, session.kernel());
}

}  // namespace starling
