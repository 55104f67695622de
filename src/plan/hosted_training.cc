#include "plan/hosted_training.h"

#include <fmt/format.h>

#include "base/error.h"
#include "job/join.h"
#include "plan/simulated_work.h"
#include "runtime/race.h"
#include "sim/fleet.h"

namespace starling {

namespace {

constexpr std::chrono::seconds kTimeout{20};

Job job_of(int rank, int ranks, bool encrypted) {
  Job job;
  job.rank = rank;
  job.size = ranks;
  job.rendezvous = "host 0:29400";
  job.secret = "a secret of these hosts";
  job.timeout = kTimeout;
  job.encryption.links = encrypted ? Encryption::Links::all : Encryption::Links::none;
  return job;
}

Task<> live(SimHost& host, Job job, SimulatedWork& work) {
  Task<Membership> joining = join_task(host, std::move(job));
  Membership member = co_await joining;
  member.comm().owe_a_finish(true);
  co_await work.live(member.comm());
  member.comm().owe_a_finish(false);
}

}  // namespace

SimulatedResult simulate(const HostedTraining& hosted) {
  const SimulatedTraining& training = hosted.training;
  Faults faults = training.faults;
  faults.seed = training.seed;
  Fleet fleet(simulated_ranks(training.settings), std::move(faults), hosted.weather);
  SimulatedWork work(training, fleet.loop());
  const auto lives = fleet.run(
      [&](SimHost& host) {
        return live(host, job_of(host.number(), fleet.hub().size(), hosted.encrypted), work);
      },
      training.deadline);
  SimulatedResult& result = work.result();
  result.errors.resize(static_cast<std::size_t>(fleet.hub().size()));
  for (const Fleet::Life& life : lives) {
    if (life.end == Fleet::Life::End::none) {
      throw Error(fmt::format("rank {} was still at it at the deadline", life.host));
    }
    result.errors[static_cast<std::size_t>(life.host)] = life.error;
  }
  result.end = fleet.loop().now();
  result.trace = fleet.hub().trace();
  return std::move(result);
}

}  // namespace starling
