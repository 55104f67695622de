// A worker's side of the parameter server: push gradients, pull weights, by key.
//
//   co_await client.hello(plan);
//   ...
//   co_await client.push(key, gradient, clock);
//   client.adopt(key, co_await client.pull(key, weights));
//
// Operations on different keys run side by side; those on one key in the order they were begun.
//
// Where shards are replicated (server/chain.h), an operation that a server has not answered when it
// is lost goes to the next in its chain, and whoever waits for it notices nothing.
#pragma once

#include <deque>
#include <list>
#include <optional>
#include <vector>

#include "runtime/group.h"
#include "runtime/running.h"
#include "server/chain.h"
#include "server/clerk.h"
#include "server/coding.h"
#include "server/factors.h"
#include "server/keys.h"
#include "server/messages.h"
#include "server/server_report.h"

namespace starling {

class ServerClient {
 public:
  struct Options {
    int first_server = 0;  // server k is rank first_server + k
    int servers = 1;
    bool wants_eager = false;
    ServerCodec codec = {};
    int replicas = 1;
    int needed_workers = 0;  // so many of the group's first must all be there to the end
    int newcomer = -1;       // as Chain has it
    bool elastic = false;    // as ServerOptions has it: then a lost server's work is not taken over
  };

  ServerClient(Group group, const Options& options, std::vector<Key> keys);

  const std::vector<Key>& keys() const { return keys_; }

  Task<> hello(WorkPlan plan);
  Task<> put(std::size_t key, std::span<const float> weights);

  // A finished push means that the gradient's memory may be reused: where shards are replicated, a
  // copy is kept until it is safe. `clock` counts the pushes of the key.
  Task<> push(std::size_t key, std::span<const float> gradient, std::uint64_t clock);
  // The same gradient as two factors; the block begins at `offset` in their product.
  Task<> push(std::size_t key, const Factors& factors, std::size_t offset, std::uint64_t clock);
  // Both in one request: the answer includes the push.
  Task<WeightsHeader> push_pull(std::size_t key, std::span<const float> gradient,
                                std::uint64_t clock, std::span<float> into);
  Task<WeightsHeader> pull(std::size_t key, std::span<float> into);
  // The weights themselves, where there is a codec.
  Task<WeightsHeader> pull_whole(std::size_t key, std::span<float> into);
  // Until the last push is in, or has been dropped.
  Task<> settle(std::size_t key);
  // Weights that the server sends without being asked.
  Task<WeightsHeader> next_eager(std::size_t key, std::span<float> into);

  // Says which weights the gradients to come are computed on.
  void adopt(std::size_t key, const WeightsHeader& weights) { held_[key] = weights; }
  const WeightsHeader& held(std::size_t key) const { return held_[key]; }

  // How much of their learning rate servers are to apply the gradients to come with.
  void set_rate(double rate) { rate_ = rate; }

  // No more pushes; waits for everybody else's last and returns what all servers have seen. For as
  // long as others push, something comes in from every server at least once a second.
  Task<ServerReport> done();
  Task<> bye();

  // Lets the servers keep their state, and returns when they have copied it.
  Task<> save(std::uint64_t step);
  void visit_state(State state);

 private:
  // What codes have left out, or told, of a key; server/coding.h says what for.
  struct Coding {
    std::unique_ptr<Codec> pushes, pulls;
    std::vector<float> residual;
    std::vector<float> told;
    int told_by = 0;  // the position in the chain of who told it: who takes over does not know it
  };
  // A code on its way, in memory that an earlier one has left.
  class Code : public Lender {
   public:
    explicit Code(std::vector<std::vector<std::byte>>& spare) : spare_(spare) {
      if (spare_.empty()) return;
      bytes.swap(spare_.back());
      spare_.pop_back();
    }
    Code(const Code&) = delete;
    ~Code() { spare_.push_back(std::move(bytes)); }
    std::optional<Bytes> lend(std::size_t size) override {
      bytes.resize(size);
      return bytes;
    }

    std::vector<std::byte> bytes;

   private:
    std::vector<std::vector<std::byte>>& spare_;
  };

  // A push that nobody waits for, until it is safe.
  struct Unsafe {
    explicit Unsafe(std::vector<std::vector<std::byte>>& spare) : values(spare), errors(spare) {}
    KeyRequest request;
    Code values, errors;
    std::optional<Running> running;
  };
  // The operations on a key that are under way, in their order; so many of them have been sent to
  // the server at that position of the chain.
  struct Line {
    std::deque<std::uint64_t> numbers;
    std::size_t sent = 0;
    int position = 0;
  };
  class Place;

  // What goes on the wire for a gradient: itself, or its code.
  ConstBytes written(std::size_t key, std::span<const float> gradient, Code& code);
  // Asks the server that has the key. Where shards are replicated: if it is lost, the next one, and
  // so on.
  Task<WeightsHeader> ask(std::size_t key, KeyRequest request, ConstBytes values,
                          std::span<float> into, ConstBytes errors = {});
  Task<WeightsHeader> ask_until_answered(std::size_t key, KeyRequest request, ConstBytes values,
                                         std::span<float> into, ConstBytes errors);
  Task<WeightsHeader> ask_once(std::size_t key, KeyRequest request, ConstBytes values,
                               std::span<float> into, ConstBytes errors, Place* place);
  // Where to and what for.
  Task<> send(std::size_t key, KeyRequest request, ConstBytes values, ConstBytes errors = {});
  // The answer to it, and what it says.
  Receive answer(std::size_t key, const KeyRequest& request, WeightsHeader& header,
                 std::span<float> into, Code& code) const;
  void take_in(std::size_t key, const KeyRequest& request, const Code& code, std::span<float> into);
  Task<> push_safely(std::size_t key, KeyRequest request, ConstBytes values, ConstBytes errors);
  Task<> deliver(std::size_t key, Unsafe& push);
  void forget_safe_pushes();

  KeyRequest request(std::size_t key, std::uint32_t flags, std::uint64_t clock = 0) const;
  int shard_of(std::size_t key) const { return keys_[key].server; }
  int server_of(std::size_t key) const { return head_of(shard_of(key)); }
  int head_of(int shard) const { return chain_.rank_at(shard, position_of(shard)); }
  Channel reply_channel_of(int shard) const {
    return reply_channel_at(chain_.distance(shard, head_of(shard)));
  }
  int position_of(int shard) const { return positions_[static_cast<std::size_t>(shard)]; }

  // Whether a server that is lost is replaced by the next in its chain, or ends the generation.
  bool takes_over() const { return chain_.replicates() && !options_.elastic; }
  // Whether that is the loss of a shard's head, for whom there is another.
  bool has_a_successor(int shard, const PeerLost& lost) const;
  Task<> until_moved_on(int shard, int position);
  Task<> watch_heads();
  void move_on(int shard);
  Task<> say(int shard, int position, ControlRequest::Kind kind, std::uint64_t step = 0);
  Task<> introduce(int shard, int position);

  Group group_;
  Options options_;
  Chain chain_;
  std::vector<Key> keys_;
  std::vector<WeightsHeader> held_;
  std::vector<Coding> codings_;  // of each key, if there is a codec
  std::vector<std::vector<std::byte>> spare_;
  double rate_ = 1;

  // Where shards are replicated:
  std::vector<int> positions_;  // of each shard's head in its chain
  WorkPlan plan_;
  bool is_done_ = false;
  std::vector<Line> lines_;  // of each key
  std::uint64_t next_number_ = 0;
  Bell changed_;
  std::exception_ptr failure_;
  std::list<Unsafe> unsafe_;
  std::list<Running> saying_;
  std::optional<Running> watching_;
};

}  // namespace starling
