// clerk: server 0 keeps a clerk who hands out the work, a unit at a time: one batch for each worker
// of a team that shares a proxy. The proxy asks, and tells its team.
#include "server/clerk_client.h"

#include "exchange/collectives.h"
#include "strategy/dealer.h"
#include "strategy/grid.h"
#include "strategy/server_plan.h"

namespace starling {

namespace {

class ClerkDealer : public Dealer {
 public:
  ClerkDealer(ClerkClient clerk, Group team) : clerk_(clerk), team_(team) {}

  Task<std::optional<std::uint64_t>> next() override {
    if (is_proxy()) {
      look_ahead();
      Running& asking = *asking_;
      co_await asking;
      asking_.reset();
    }
    co_await broadcast(team_, kUnitChannel, object_bytes(unit_), 0);
    if (unit_ == Clerk::kNoMore) co_return std::nullopt;
    co_return unit_* static_cast<std::uint64_t>(team_.size()) +
        static_cast<std::uint64_t>(team_.rank());
  }

  void look_ahead() override {
    if (is_proxy() && !asking_) asking_.emplace(ask());
  }

  // What the clerk has told us is told again to who goes on from here.
  Task<> pause() override {
    if (!asking_) co_return;
    Running& asking = *asking_;
    co_await asking;
  }

  Task<> stop() override {
    if (is_proxy()) co_await clerk_.stop();
  }

 private:
  static constexpr Channel kUnitChannel{0, Purpose::control, "telling a group its work"};

  bool is_proxy() const { return team_.rank() == 0; }
  Task<> ask() {
    Task<std::uint64_t> next = clerk_.next();
    unit_ = co_await next;
  }

  ClerkClient clerk_;
  Group team_;
  std::uint64_t unit_ = 0;
  std::optional<Running> asking_;
};

}  // namespace

std::unique_ptr<Dealer> make_clerk_dealer(const Settings& settings, Group workers) {
  return std::make_unique<ClerkDealer>(
      ClerkClient(serving_group(settings, workers.comm()), server_chain(settings)),
      team_of(workers, group_size(settings), GroupNumber::dealing));
}

}  // namespace starling
