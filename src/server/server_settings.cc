#include "server/server_settings.h"

#include <fmt/format.h>

#include "base/error.h"

namespace starling {

void check(const ServerSettings& settings, int workers, int backward_passes,
           std::string_view what) {
  const int servers = settings.server_count(workers);
  if (settings.placement == ServerSettings::Placement::workers && servers > workers) {
    throw Error(fmt::format("{} servers do not fit on {} {}", servers, workers, what),
                fmt::format("with placement = workers there can be 1 to {}", workers));
  }
  if (settings.replicas > servers) {
    throw Error(fmt::format("replicas = {}: a shard cannot be on more servers than the {} there {}",
                            settings.replicas, servers, servers == 1 ? "is" : "are"),
                fmt::format("replicas goes from 1 to {}", servers));
  }
  const int group = settings.group_size(workers);
  if (workers % group != 0) {
    throw Error(
        fmt::format("{} {} cannot be shared out evenly in groups of {}", workers, what, group),
        fmt::format("group must divide {}", what));
  }
  if (settings.gate.quorum > workers / group) {
    throw Error(fmt::format("quorum = {} can never be reached by {} worker{}", settings.gate.quorum,
                            workers / group, workers / group == 1 ? "" : "s"),
                fmt::format("it goes from 1 to {}", workers / group));
  }
  const bool every_step = settings.push_every == 1 && settings.fetch_every == 1;
  const bool plain_steps = every_step && settings.lag == 0 && !settings.eager;
  if (!plain_steps && (settings.gate.kind == GateSettings::Kind::value ||
                       settings.staleness.kind == StalenessRule::Kind::compensate)) {
    throw Error("a value bound and delay compensation need to know what each worker computes on",
                "leave out push_every, fetch_every, lag and eager");
  }
  if (!plain_steps && group > 1) {
    throw Error("workers of a group go step by step",
                "leave out push_every, fetch_every, lag and eager, or group");
  }
  if (settings.lag > 0 && (!every_step || settings.eager)) {
    throw Error(fmt::format("lag = {} needs a push and a fetch in every step", settings.lag),
                "leave out push_every, fetch_every and eager, or lag");
  }
  if (settings.eager && settings.fetch_every > 1) {
    throw Error("eager weights need no fetching", "leave out fetch_every, or eager");
  }
  if (settings.factors &&
      (settings.push_every > 1 || settings.lag > 0 || backward_passes > 1 || group > 1)) {
    throw Error("factors are of one batch of one worker",
                "leave out push_every, lag, backward_passes and group, or factors");
  }
}

}  // namespace starling
