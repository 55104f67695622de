#include "exchange/survivors.h"

#include <vector>

#include "base/error.h"
#include "exchange/move.h"
#include "math/vector_math.h"
#include "runtime/all.h"

namespace starling {

namespace {

// The lead hands the mean out, hears that everybody has it, and says so; then all may go. If the
// lead is lost before, the others tell each other who has the mean: whoever has it gives it to
// those who lack it, and if nobody does, the next one leads. Nobody who lacks it waits in vain: as
// long as one does, nobody has gone.
enum class Status : std::uint32_t { lacks, has, done };

Channel channel_of(int lead) {
  return {2 * static_cast<std::uint32_t>(lead), Purpose::weights, "agreeing on the final model"};
}
Channel status_channel_of(int lead) {
  return {2 * static_cast<std::uint32_t>(lead) + 1, Purpose::control,
          "agreeing on the final model"};
}

Task<> lead_mean(Group group, std::span<float> values, float share) {
  const Channel channel = channel_of(group.rank());
  auto model = group.lend<float>(values.size());
  if (share > 0) scale(values, share);
  double shares = static_cast<double>(share);
  int models = 1;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank() || group.is_lost(rank)) continue;
    try {
      float theirs = 0;
      co_await group.receive(rank, channel, object_bytes(theirs));
      co_await move(group, channel, Incoming{rank, model.span()});
      ++models;
      if (theirs > 0 && !(shares > 0)) std::ranges::fill(values, 0.0f);
      if (theirs > 0 || shares > 0) {
        subtract_scaled(values, model.span(), -theirs);
      } else {
        add(values, model.span());  // as long as nobody's counts, all do
      }
      shares += static_cast<double>(theirs);
    } catch (const PeerLost&) {
    }
  }
  scale(values, static_cast<float>(shares > 0 ? 1 / shares : 1.0 / models));
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank() || group.is_lost(rank)) continue;
    try {
      co_await move(group, channel, Outgoing{rank, values});
    } catch (const PeerLost&) {
    }
  }
  Status status = Status::done;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank() || group.is_lost(rank)) continue;
    try {
      Status theirs{};
      co_await group.receive(rank, channel, object_bytes(theirs));
    } catch (const PeerLost&) {
    }
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank() || group.is_lost(rank)) continue;
    try {
      co_await group.send(rank, channel, object_bytes(status));
    } catch (const PeerLost&) {
    }
  }
}

Task<> follow_mean(Group group, int lead, std::span<float> values, float share, Status& status) {
  const Channel channel = channel_of(lead);
  auto mean = group.lend<float>(values.size());  // ours must be whole if the lead is lost
  co_await group.send(lead, channel, object_bytes(share));
  co_await move(group, channel, Outgoing{lead, values});
  co_await move(group, channel, Incoming{lead, mean.span()});
  std::ranges::copy(mean.span(), values.begin());
  status = Status::has;
  co_await group.send(lead, channel, object_bytes(status));
  co_await group.receive(lead, channel, object_bytes(status));
}

Task<> tell(Group group, int lead, int rank, Status status) {
  try {
    co_await group.send(rank, status_channel_of(lead), object_bytes(status));
  } catch (const PeerLost&) {
  }
}

// What passes between two of those whom the lead has left.
Task<> even_out(Group group, int lead, int rank, std::span<float> values, Status ours,
                Status& found) {
  try {
    Status theirs{};
    co_await group.receive(rank, status_channel_of(lead), object_bytes(theirs));
    if (theirs == Status::lacks && ours == Status::has) {
      co_await move(group, status_channel_of(lead), Outgoing{rank, values});
    } else if (theirs != Status::lacks && ours == Status::lacks) {
      auto mean = group.lend<float>(values.size());
      co_await move(group, status_channel_of(lead), Incoming{rank, mean.span()});
      std::ranges::copy(mean.span(), values.begin());
      found = Status::has;
    }
  } catch (const PeerLost&) {
  }
}

}  // namespace

Task<> mean_of_survivors(Group group, std::span<float> values, float share) {
  // Not even a lead that is lost already is passed over: others may have followed it, and wait to
  // hear what we have of it.
  for (int lead = 0; lead < group.size(); ++lead) {
    if (lead == group.rank()) {
      co_await lead_mean(group, values, share);
      co_return;
    }
    Status status = Status::lacks;
    try {
      co_await follow_mean(group, lead, values, share, status);
    } catch (const PeerLost&) {
      if (!group.is_lost(lead)) throw;
    }
    std::vector<Task<>> messages;
    for (int rank = lead + 1; rank < group.size(); ++rank) {
      if (rank != group.rank()) messages.push_back(tell(group, lead, rank, status));
    }
    Status found = status;
    for (int rank = lead + 1; rank < group.size() && status != Status::done; ++rank) {
      if (rank != group.rank()) {
        messages.push_back(even_out(group, lead, rank, values, status, found));
      }
    }
    co_await all(std::move(messages));
    if (found != Status::lacks) co_return;
  }
}

}  // namespace starling
