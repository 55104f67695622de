#include "exchange/survivors.h"

#include "base/error.h"
#include "exchange/move.h"
#include "exchange/vector_math.h"

namespace starling {

namespace {

Channel channel_of(int lead) {
  constexpr std::uint32_t kFirstChannel = 0x8000;
  return {kFirstChannel + static_cast<std::uint32_t>(lead), Purpose::weights,
          "agreeing on the final model"};
}

Task<> lead_mean(Comm& comm, int workers, std::span<float> values, float share) {
  const Channel channel = channel_of(comm.rank());
  auto model = comm.lend<float>(values.size());
  scale(values, share);
  double shares = static_cast<double>(share);
  for (int rank = 0; rank < workers; ++rank) {
    if (rank == comm.rank() || comm.is_lost(rank)) continue;
    try {
      float theirs = 0;
      co_await comm.receive(rank, channel, object_bytes(theirs));
      co_await move(comm, channel, Incoming{rank, model.span()});
      subtract_scaled(values, model.span(), -theirs);
      shares += static_cast<double>(theirs);
    } catch (const PeerLost&) {
    }
  }
  if (!(shares > 0)) {
    throw Error("nobody is left whose model counts", "start again");
  }
  scale(values, static_cast<float>(1 / shares));
  for (int rank = 0; rank < workers; ++rank) {
    if (rank == comm.rank() || comm.is_lost(rank)) continue;
    try {
      co_await move(comm, channel, Outgoing{rank, values});
    } catch (const PeerLost&) {
    }
  }
}

Task<> follow_mean(Comm& comm, int lead, std::span<float> values, float share) {
  const Channel channel = channel_of(lead);
  auto mean = comm.lend<float>(values.size());  // ours must be whole if the lead is lost
  co_await comm.send(lead, channel, object_bytes(share));
  co_await move(comm, channel, Outgoing{lead, values});
  co_await move(comm, channel, Incoming{lead, mean.span()});
  std::ranges::copy(mean.span(), values.begin());
}

}  // namespace

Task<> mean_of_survivors(Comm& comm, int workers, std::span<float> values, float share) {
  for (int lead = 0; lead < workers; ++lead) {
    if (comm.is_lost(lead)) continue;
    if (lead == comm.rank()) {
      co_await lead_mean(comm, workers, values, share);
      co_return;
    }
    bool lost = false;
    try {
      co_await follow_mean(comm, lead, values, share);
    } catch (const PeerLost&) {
      if (!comm.is_lost(lead)) throw;
      lost = true;
    }
    if (!lost) co_return;
  }
}

}  // namespace starling
