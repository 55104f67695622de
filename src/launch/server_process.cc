#include "launch/server_process.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "job/checkpoint.h"
#include "job/launched.h"
#include "job/past.h"
#include "job/run_summary.h"
#include "job/session.h"
#include "job/traffic.h"
#include "job/worker_events.h"
#include "server/server_estate.h"
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

// With those who are there now, until all workers have done, or another generation is due.
class ServerProcess {
 public:
  ServerProcess(Job job, const Settings& settings)
      : settings_(settings),
        session_(job, elastic_session(job, settings, Member::Role::server)),
        past_(load_past(job, settings)) {
    if (!job.checkpoints.empty()) writer_.emplace(job, job.checkpoints);
    if (session_.generations() != nullptr) report_joined(session_);
  }

  void run() {
    session_.board().serves();
    bool is_over = false;
    while (!is_over) {
      try {
        serve();
        is_over = true;
      } catch (const Error& error) {
        if (!session_.can_go_on_after(error)) throw;
        is_over = !session_.next_generation();
        if (is_over) {
          report_event(session_.job(), {{"event", "left"}});
        } else {
          report_generation(session_);
        }
      }
    }
  }

 private:
  void serve() {
    const Running traffic(report_traffic(session_.job(), session_.comm()));
    const Settings settings = settings_now();
    ServerOptions options = server_options(settings);
    options.timeout = session_.job().timeout;
    Server server(serving_group(settings, session_.comm()), options, past_now(settings));
    server.on_save([&](std::uint64_t step) { save(server, step); });
    try {
      session_.loop().run(server.serve());  // it has deadlines of its own
    } catch (const Error&) {
      estate_.keep(server);
      throw;
    }
    report_served(session_.job(), session_.comm().ledger(), server, session_.kernel());
  }

  Settings settings_now() {
    if (session_.generations() == nullptr) return settings_;
    const Roster& roster = session_.generations()->roster();
    return with_members(settings_, roster.workers(), roster.servers());
  }

  std::uint64_t generation_now() {
    return session_.generations() == nullptr ? 1 : session_.generations()->roster().generation;
  }

  State past_now(const Settings& settings) {
    const std::uint64_t generation = generation_now();
    if (generation == 1) return past_ ? State::restoring(*past_) : State();
    session_.run_patiently("taking over the blocks of servers",
                           estate_.take_over(block_holders(settings, session_.comm()),
                                             server_count(settings), generation));
    return estate_.past();
  }

  void save(Server& server, std::uint64_t step) {
    if (!writer_) return;
    Snapshot snapshot;
    server.visit_state(State::saving(snapshot));
    writer_->write(step, session_.comm().rank(), generation_now(), std::move(snapshot));
  }

  Settings settings_;
  Session session_;
  std::optional<Snapshot> past_;  // of a run that is resumed
  std::optional<CheckpointWriter> writer_;
  ServerEstate estate_;
};

}  // namespace

void run_server(Job job) {
  if (job.settings.empty()) {
    throw Error("`starling serve` is started by `starling train` and `starling launch`");
  }
  Settings settings;
  read_settings(job.settings, "the launcher's settings", settings);
  job.terms = agreed_settings(settings);
  ServerProcess(std::move(job), settings).run();
}

}  // namespace starling
