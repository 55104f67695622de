// A worker's side of the parameter server: push gradients, pull weights, by key.
//
//   co_await client.hello(plan);
//   ...
//   co_await client.push(key, gradient, clock);
//   client.adopt(key, co_await client.pull(key, weights));
//
// Operations on different keys run side by side; those on one key in the order they were begun.
#pragma once

#include <optional>
#include <vector>

#include "runtime/group.h"
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
  };

  ServerClient(Group group, const Options& options, std::vector<Key> keys);

  const std::vector<Key>& keys() const { return keys_; }

  Task<> hello(WorkPlan plan);
  Task<> put(std::size_t key, std::span<const float> weights);

  // A finished push means that the gradient's memory may be reused. `clock` counts the pushes of
  // the key.
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

 private:
  // What codes have left out, or told, of a key; server/coding.h says what for.
  struct Coding {
    std::unique_ptr<Codec> pushes, pulls;
    std::vector<float> residual;
    std::vector<float> told;
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

  // What goes on the wire for a gradient: itself, or its code.
  ConstBytes written(std::size_t key, std::span<const float> gradient, Code& code);
  // The answer to a pull, and what it says.
  Receive answer(std::size_t key, WeightsHeader& header, std::span<float> into, Code& code) const;
  void take_in(std::size_t key, const Code& code, std::span<float> into);

  KeyRequest request(std::size_t key, std::uint32_t flags, std::uint64_t clock = 0) const;
  int server_of(std::size_t key) const { return options_.first_server + keys_[key].server; }
  Task<> tell_all(ControlRequest::Kind kind);

  Group group_;
  Options options_;
  std::vector<Key> keys_;
  std::vector<WeightsHeader> held_;
  std::vector<Coding> codings_;  // of each key, if there is a codec
  std::vector<std::vector<std::byte>> spare_;
  double rate_ = 1;
};

}  // namespace starling
