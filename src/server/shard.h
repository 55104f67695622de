// What a server holds of one shard: its blocks, and for the first shard the clerk. All that changes
// it is written into the shard's journal, if it has one, so that a copy at another server can follow
// (replay). Serving it to workers is the desk's affair (server/desk.h).
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "server/block.h"
#include "server/clerk.h"
#include "server/journal.h"
#include "server/server_options.h"

namespace starling {

class Shard : public PieceSource {
 public:
  // A block, with all that goes with it.
  struct Held final : Block::Witness {
    Held(const KeyInfo& key, Shard& of, const Block::Options& options);
    void will_update(const Block::Update& update) override;
    void was_read(int worker) override;

    Shard& shard;
    KeyInfo info;
    Block block;
    Running keeping_up;
    // With a codec: what reads pushes, and what writes to each worker.
    std::unique_ptr<Codec> reader;
    std::vector<std::unique_ptr<Codec>> writers;
    std::size_t most_bytes = kMaxValueBytes;  // of a request
    std::vector<PushNote> notes;
    bool is_known = true;  // else its state is still to come
  };

  // Goes on from the past as soon as it is known which blocks there are.
  Shard(Loop& loop, const ServerOptions& options, Journal* journal, State past = {});

  const Gate& gate() const { return *gate_; }
  ServerReport& report() { return report_; }
  const ServerReport& report() const { return report_; }
  std::list<Held>& blocks() { return blocks_; }

  bool has_plan() const { return plan_.has_value(); }
  void make(const WorkPlan& plan, std::span<const KeyInfo> keys);
  bool is_of(const WorkPlan& plan, std::span<const KeyInfo> keys) const;
  bool has_first_weights() const;
  void put(Held& held, std::span<const float> weights);

  // The worker will push no more, and has said so.
  void done(int worker);
  bool is_done(int worker) const { return done_[static_cast<std::size_t>(worker)] != 0; }
  bool everybody_is_done() const;
  // It will push no more, for whatever reason.
  void leave(int worker);

  // What the worker is to do next, if it has had so many answers.
  Task<std::uint64_t> next_unit(int worker, std::uint64_t answers);
  void stop();

  void visit_state(State state);
  void visit_blocks(State state);

  // For a copy that has nothing: an outline, and then block by block.
  std::size_t pieces() const override { return 1 + blocks_.size(); }
  Record piece(std::size_t number, std::vector<std::byte>& bytes) override;

  void replay(const Record& record, ConstBytes bytes);
  // Forgets part of a shard, and says whether that was all it had.
  bool begin_anew();
  // None that makes sense has more bytes.
  std::size_t largest_record_bytes() const;

  void follow(Block::Follower follower) { follower_ = std::move(follower); }

 private:
  void make_blocks(std::span<const KeyInfo> keys);
  void make_codecs(Held& held) const;
  void restore();
  static void visit_block(Held& held, State state);
  void visit_outline(State state);
  Record outline(std::vector<std::byte>& bytes);
  Record state_of(Held& held, std::vector<std::byte>& bytes);
  void replay_outline(const Record& record, ConstBytes bytes);
  void write(Record record, std::initializer_list<ConstBytes> bytes = {});
  Held& held_of(const Record& record);

  Loop& loop_;
  ServerOptions options_;
  Journal* journal_;
  std::unique_ptr<Gate> gate_;
  Clerk clerk_;
  ServerReport report_;
  State past_;
  std::optional<WorkPlan> plan_;
  std::list<Held> blocks_;
  std::vector<std::uint8_t> done_;  // by worker
  bool replaying_ = false;
  std::vector<Push> replayed_;
  Block::Follower follower_;
};

}  // namespace starling
