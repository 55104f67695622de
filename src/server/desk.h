// A desk: where a server attends to the workers for one shard. If the server is not the head of the
// shard's chain (server/chain.h), the desk follows the one before it, and opens when there is none
// left.
#pragma once

#include "server/shard.h"

namespace starling {

class Desk {
 public:
  // Of the shard that begins so far before this server on the ring. It goes on from the past, if it is
  // the first of its chain.
  Desk(Group group, const ServerOptions& options, int distance, State past);

  // Until every worker has said bye.
  Task<> serve();

  const ServerReport& report() const { return shard_.report(); }
  // Sent on the wire from the first push until nobody would push any more.
  std::uint64_t training_bytes_sent() const { return training_bytes_sent_.value_or(0); }
  bool is_head() const { return is_head_; }
  void visit_state(State state) { shard_.visit_state(std::move(state)); }
  void visit_blocks(State state) { shard_.visit_blocks(std::move(state)); }
  bool has_weights() const { return shard_.has_first_weights(); }
  // What it does when a worker asks to keep its state, after so many steps of that worker.
  using Keep = std::function<void(std::uint64_t step)>;
  void on_save(Keep keep) { keep_ = std::move(keep); }
  void follow(Block::Follower follower) { shard_.follow(std::move(follower)); }

 private:
  class Landing;
  using Held = Shard::Held;

  std::optional<Journal> make_journal();
  int rank_of(int worker) const { return worker * options_.worker_stride; }
  Task<> attend(int worker);
  Task<bool> greet(int worker);
  void judge_loss(int worker, const PeerLost& lost);
  Task<> until_head();
  Task<> be_a_replica();
  bool somebody_before_is_lost() const;

  Task<> serve_control(int worker);
  Task<> wait_for_the_others(int rank);
  Task<> serve_work(int worker);
  Task<> serve_block(int worker, Held& held);
  void take_push(int worker, const KeyRequest& request, Block& block, std::span<float> gradient);
  Task<> answer(int worker, Held& held, std::span<float> room);
  Task<> tell_difference(int worker, Held& held, std::span<float> room,
                         std::vector<std::byte>& code);
  void decode(const Held& held, Landing& landing);
  Task<> multiply_factors(int rank, std::uint64_t key, const KeyRequest& request,
                          std::size_t elements, Landing& landing);
  Task<> scatter_eagerly(int worker, Held& held);

  // What a worker is told must be safe.
  Task<> until_safe();
  std::uint64_t bytes_sent() const { return group_.ledger().total(Direction::sent).wire; }
  void look_whether_all_are_done();
  Task<> watch_for_silence();

  Group group_;
  ServerOptions options_;
  int distance_;
  int number_;                      // of the shard, where there are chains
  std::optional<Journal> journal_;  // if the shard is replicated
  Shard shard_;
  std::vector<bool> wants_eager_;
  std::vector<std::exception_ptr> lost_before_;  // while another was the head
  bool is_head_;
  Bell head_, all_done_;
  Time heard_;
  Keep keep_;
  std::optional<std::uint64_t> sent_before_training_;
  std::optional<std::uint64_t> training_bytes_sent_;
};

}  // namespace starling
