// What workers and servers say to each other. Requests and replies are of fixed size; where one
// brings values, it is their head, and the other side checks their number against what it holds.
//
//   A. hello    on the control channel: the plan of work and the blocks that the worker believes
//               this server to hold. All workers must say the same.
//   B. put      on each block's channel, by worker 0: the first weights.
//   C. push     the gradient of a block, its code, or the two factors it is the product of, with
//               the clock and the share of the learning rate that the worker's schedule has come to.
//      pull     answered with the version and the weights when the gate allows; push and pull can
//               be one request. With a codec (server/coding.h), the code of what the weights are
//               ahead of those that the worker has, unless it asks for whole ones.
//      settle   answered with the version alone, once the worker's last push has been applied or
//               dropped. Unlike a pull it does not say that the worker computes on what there is.
//      eager    on a channel of its own: fresh weights that nobody asked for, for those who said
//               in their hello that they want them.
//   D. work     on server 0's own channels for it: what to do next. Whoever wishes so says with it:
//               nothing more, for anybody.
//      save     keep your state, as of this step. Answered when it has been copied.
//   E. done     no more pushes. Answered with the server's report when everybody is done, so that
//               whoever pulls after it gets the final weights. Until then, whenever others have been
//               heard of, with the report so far: who waits must know that they are still at work.
//   F. bye      no more requests at all.
//
// Where a shard is on several servers (server/chain.h), a worker talks to the first of them that is
// left. When that one is lost:
//   G. hello    goes to the next in the chain, and so does again, in its order, all that the worker
//               has had no answer to; every request that changes something asks for one (settle).
//               The clock of a push tells whether it is in the shard already, and the count of
//               answers whether a unit of work was handed out in vain.
// bye goes to every server of the chain. What these say to each other is in server/journal.h.
#pragma once

#include <cstdint>

#include "runtime/comm.h"
#include "server/keys.h"
#include "server/server_report.h"

namespace starling {

struct ControlRequest {
  enum class Kind : std::uint32_t { hello, done, bye, save };
  Kind kind = Kind::hello;
  std::uint32_t wants_eager = 0;
  std::uint64_t units = 0;
  std::uint64_t units_per_epoch = 1;
  std::uint64_t step = 0;  // save: that the worker has done
};

struct KeyInfo {
  std::uint64_t key = 0;
  std::uint64_t elements = 0;
  std::uint64_t begin = 0;  // in the model
  bool operator==(const KeyInfo&) const = default;
};

struct WorkRequest {
  std::uint32_t asks = 0;
  std::uint32_t stop = 0;
  std::uint64_t answers = 0;  // that the worker has had so far
};

struct WorkReply {
  std::uint64_t unit = 0;
};

struct DoneReply {
  std::uint64_t everybody_is_done = 0;
  ServerReport report;
};

struct KeyRequest {
  static constexpr std::uint32_t kPut = 1, kPush = 2, kPull = 4, kFactors = 8, kSettle = 16,
                                 kWhole = 32;
  std::uint32_t flags = 0;
  std::uint32_t batch = 0;    // factors: rows of both,
  std::uint32_t inputs = 0;   // columns of the activations,
  std::uint32_t outputs = 0;  // columns of the errors,
  std::uint64_t offset = 0;   // and where the block begins in the outputs x inputs gradient
  std::uint64_t clock = 0;
  std::uint64_t version = 0;
  double rate = 1;  // push: how much of the learning rate the gradient is applied with
};

struct WeightsHeader {
  std::uint64_t version = 0;
  std::uint64_t clock = 0;   // how many of the worker's own pushes are in it
  std::uint64_t closed = 0;  // how many of every worker's are
};

// A bound on what a hello may claim: more is a broken or hostile worker.
inline constexpr std::uint64_t kMaxBlockElements = 1 << 28;
inline constexpr std::size_t kMaxValueBytes = kMaxBlockElements * sizeof(float);
inline constexpr std::uint64_t kMaxShardElements = std::uint64_t{1} << 34;

// The channels are those of a group that is for workers and servers alone. A server holds its own
// shard and perhaps others', each at another distance (Chain::distance), which tells them apart.
// Requests and replies, because a worker that serves as well is asked and asks.
inline Channel control_channel(std::uint32_t use, int distance, const char* operation) {
  return {4 * static_cast<std::uint32_t>(distance) + use, Purpose::control, operation};
}
inline Channel request_channel_at(int distance) {
  return control_channel(0, distance, "a request to a server");
}
inline Channel reply_channel_at(int distance) {
  return control_channel(1, distance, "a server's reply");
}
inline Channel work_channel_at(int distance) {
  return control_channel(2, distance, "asking for work");
}
inline Channel unit_channel_at(int distance) {
  return control_channel(3, distance, "waiting for work");
}
inline const Channel kRequestChannel = request_channel_at(0);
inline const Channel kReplyChannel = reply_channel_at(0);

// Each block has channels of its own.
inline Channel block_channel(std::uint32_t use, std::uint64_t key, Purpose purpose,
                             const char* operation) {
  return {(use << 16) + static_cast<std::uint32_t>(key), purpose, operation};
}
// What a request is for by what it brings.
inline Channel request_channel(std::uint64_t key, Purpose purpose = Purpose::control) {
  return block_channel(1, key, purpose, "a request for a block");
}
inline Channel errors_channel(std::uint64_t key) {
  return block_channel(2, key, Purpose::gradients, "a push of factors");
}
inline Channel pull_channel(std::uint64_t key) {
  return block_channel(3, key, Purpose::weights, "a pull");
}
inline Channel eager_channel(std::uint64_t key) {
  return block_channel(4, key, Purpose::weights, "an eager scatter");
}
// Between servers, at the distance of the one that is told of a shard.
inline Channel journal_channel(int distance) {
  return block_channel(5, static_cast<std::uint64_t>(distance), Purpose::replication,
                       "a journal of a shard");
}
inline Channel receipt_channel(int distance) {
  return block_channel(6, static_cast<std::uint64_t>(distance), Purpose::replication,
                       "a receipt for a journal");
}

}  // namespace starling
