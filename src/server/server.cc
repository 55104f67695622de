#include "server/server.h"

#include <fmt/format.h>

#include <list>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "runtime/all.h"
#include "runtime/race.h"
#include "server/factors.h"
#include "server/messages.h"

namespace starling {

namespace {
constexpr const char* kRemedy = "all workers must run the same program with the same settings";
}

class Server::Desk {
 public:
  Desk(Group group, const ServerOptions& options)
      : group_(group),
        options_(options),
        gate_(make_gate(options.gate)),
        clerk_(group.loop(), options.clerk, options.workers),
        workers_(static_cast<std::size_t>(options.workers)),
        heard_(group.loop().now()),
        all_done_(group.loop()) {}

  Task<> serve() {
    std::vector<Task<>> attendances;
    for (int worker = 0; worker < options_.workers; ++worker) {
      attendances.push_back(attend(worker));
    }
    Task<int> until_over = race(all(std::move(attendances)), watch_for_silence());
    co_await until_over;
  }

  const ServerReport& report() const { return report_; }
  std::uint64_t training_bytes_sent() const { return training_bytes_sent_; }
  void follow(Block::Follower follower) { follower_ = std::move(follower); }

 private:
  struct Worker {
    bool wants_eager = false;
    bool done = false;  // will push no more, for whatever reason
  };
  struct Held {
    KeyInfo info;
    Block block;
    Running keeping_up;
    // With a codec: what reads pushes, and what writes to each worker.
    std::unique_ptr<Codec> reader;
    std::vector<std::unique_ptr<Codec>> writers;
    std::size_t most_bytes = kMaxValueBytes;  // of a request
    Held(const KeyInfo& key_info, Loop& loop, const Block::Options& options, const Gate& gate,
         ServerReport& report)
        : info(key_info), block(loop, options, gate, report), keeping_up(block.keep_up()) {}
  };

  int rank_of(int worker) const { return worker * options_.worker_stride; }
  Worker& of(int worker) { return workers_[static_cast<std::size_t>(worker)]; }

  // One worker, from its hello to its bye or its loss.
  Task<> attend(int worker) {
    try {
      co_await greet(worker);
      std::vector<Task<>> blocks;
      for (Held& held : blocks_) {
        blocks.push_back(serve_block(worker, held));
        if (of(worker).wants_eager) blocks.push_back(scatter_eagerly(worker, held));
      }
      if (blocks.empty()) {
        co_await serve_control(worker);
      } else {
        Task<int> until_bye = race(serve_control(worker), all(std::move(blocks)));
        co_await until_bye;
      }
    } catch (const PeerLost& lost) {
      const bool in_peace = of(worker).done && lost.rank() == group_.in_comm(rank_of(worker));
      const bool needed = gate_->needs_everybody() || (worker == 0 && !has_first_weights());
      if (!in_peace && (needed || lost.rank() != group_.in_comm(rank_of(worker)))) throw;
      if (!in_peace) spdlog::info("rank {} was lost; the others go on", lost.rank());
    }
    // What it has pushed lay in the memory of serve_block, which is somebody else's now.
    for (Held& held : blocks_) held.block.forget(worker);
    leave(worker);
  }

  Task<> greet(int worker) {
    struct Keys : Lender {
      std::optional<Bytes> lend(std::size_t bytes) override {
        if (bytes % sizeof(KeyInfo) != 0) throw Error("it sent part of a block", kRemedy);
        keys.resize(bytes / sizeof(KeyInfo));
        return writable_bytes(std::span(keys));
      }
      std::vector<KeyInfo> keys;
    };
    ControlRequest hello;
    Keys told;
    co_await group_.receive(rank_of(worker), kRequestChannel, object_bytes(hello),
                            kMaxKeys * sizeof(KeyInfo), told);
    const std::vector<KeyInfo>& keys = told.keys;
    heard_ = group_.loop().now();
    if (hello.kind != ControlRequest::Kind::hello || hello.units_per_epoch == 0) {
      throw Error(fmt::format("rank {} did not say hello", rank_of(worker)), kRemedy);
    }
    const WorkPlan plan{hello.units, hello.units_per_epoch};
    of(worker).wants_eager = hello.wants_eager != 0;
    if (!plan_) {
      plan_ = plan;
      clerk_.plan(plan);
      make_blocks(keys);
    }
    const auto same = [](const Held& held, const KeyInfo& key) { return held.info == key; };
    if (plan != *plan_ || !std::ranges::equal(blocks_, keys, same)) {
      throw Error(fmt::format("rank {} has another model or another amount of work than the others",
                              rank_of(worker)),
                  kRemedy);
    }
  }

  bool has_first_weights() const {
    return plan_ &&
           std::ranges::all_of(blocks_, [](const Held& held) { return held.block.has_weights(); });
  }

  void make_blocks(const std::vector<KeyInfo>& keys) {
    std::uint64_t all_elements = 0;
    for (const KeyInfo& key : keys) {
      all_elements += key.elements;
      if (key.elements == 0 || key.elements > kMaxBlockElements || key.key >= kMaxKeys ||
          all_elements > kMaxShardElements) {
        throw Error(fmt::format("a worker asks for a block of {} elements", key.elements), kRemedy);
      }
      const Block::Options options{key.elements, options_.workers, options_.optimizer,
                                   options_.staleness, options_.codec.codes()};
      blocks_.emplace_back(key, group_.loop(), options, *gate_, report_);
      if (options_.codec.codes()) make_codecs(blocks_.back());
      if (follower_) blocks_.back().block.follow(follower_);
      for (int worker = 0; worker < options_.workers; ++worker) {
        if (of(worker).done) blocks_.back().block.leave(worker);  // lost before the first hello
      }
    }
  }

  void make_codecs(Held& held) {
    held.reader = options_.codec.for_pushes(0, held.info.key);
    held.most_bytes =
        std::max<std::size_t>(held.info.elements * sizeof(float),  // of the first weights
                              held.reader->largest_code_bytes(held.info.elements));
    for (int worker = 0; worker < options_.workers; ++worker) {
      held.writers.push_back(
          options_.codec.for_pulls(static_cast<std::uint64_t>(worker), held.info.key));
    }
  }

  Task<> serve_control(int worker) {
    const int rank = rank_of(worker);
    while (true) {
      ControlRequest request;
      co_await group_.receive(rank, kRequestChannel, object_bytes(request));
      heard_ = group_.loop().now();
      switch (request.kind) {
        case ControlRequest::Kind::work: {
          WorkReply reply;
          reply.unit = co_await clerk_.next(worker);
          co_await group_.send(rank, kReplyChannel, object_bytes(reply));
          break;
        }
        case ControlRequest::Kind::stop:
          clerk_.stop();
          break;
        case ControlRequest::Kind::done: {
          leave(worker);
          co_await wait_for_the_others(rank);
          DoneReply reply{1, report_};
          co_await group_.send(rank, kReplyChannel, object_bytes(reply));
          break;
        }
        case ControlRequest::Kind::bye:
          co_return;
        default:
          throw Error(fmt::format("rank {} sent a request that makes no sense", rank), kRemedy);
      }
    }
  }

  // Tells the one who waits, every now and then, that the others are still at work.
  Task<> wait_for_the_others(int rank) {
    constexpr std::chrono::milliseconds kBetweenNews(500);
    for (Time told = heard_; !everybody_is_done();) {
      Task<int> news =
          race(rung(all_done_), sleep_until(group_.loop(), group_.loop().now() + kBetweenNews));
      co_await news;
      if (everybody_is_done() || heard_ == told) continue;
      told = heard_;
      DoneReply not_yet{0, report_};
      co_await group_.send(rank, kReplyChannel, object_bytes(not_yet));
    }
  }
  static Task<> rung(Bell& bell) { co_await bell.rung(); }

  // Memory for what one worker sends for a block, from its first byte until it has been applied and
  // answered.
  class Landing : public Lender {
   public:
    Landing(Group group, bool of_codes) : group_(group), of_codes_(of_codes) {}
    std::optional<Bytes> lend(std::size_t bytes) override {
      if (!of_codes_ && bytes % sizeof(float) != 0) {
        throw Error("it sent part of a number", kRemedy);
      }
      memory_.emplace(group_.lend<float>((bytes + sizeof(float) - 1) / sizeof(float)));
      bytes_ = bytes;
      return writable_bytes(memory_->span()).first(bytes);
    }
    Scratch<float> take() {
      Scratch<float> memory = std::move(*memory_);
      memory_.reset();
      return memory;
    }
    void release() { memory_.reset(); }
    std::span<float> span() const { return memory_->span(); }
    std::size_t bytes() const { return bytes_; }

   private:
    Group group_;
    bool of_codes_;
    std::optional<Scratch<float>> memory_;
    std::size_t bytes_ = 0;
  };

  Task<> serve_block(int worker, Held& held) {
    const int rank = rank_of(worker);
    const std::uint64_t key = held.info.key;
    Block& block = held.block;
    Landing landing(group_, options_.codec.codes());
    std::vector<std::byte> code;  // of what the worker is told
    while (true) {
      co_await block.until_applied(worker);
      landing.release();
      KeyRequest request;
      co_await group_.receive(rank, request_channel(key), object_bytes(request), held.most_bytes,
                              landing);
      heard_ = group_.loop().now();
      if (request.flags & KeyRequest::kFactors) {
        co_await multiply_factors(rank, key, request, block.weights().size(), landing);
      } else if (options_.codec.codes() && (request.flags & KeyRequest::kPush)) {
        decode(held, landing);
      }
      const bool has_values = request.flags & (KeyRequest::kPut | KeyRequest::kPush);
      if (landing.bytes() != (has_values ? block.weights().size_bytes() : 0)) {
        throw Error(fmt::format("rank {} sent {} values for a block of {}", rank,
                                landing.bytes() / sizeof(float), block.weights().size()),
                    kRemedy);
      }
      if (request.flags & KeyRequest::kPut) {
        std::ranges::copy(landing.span(), block.weights().begin());
        block.have_weights();
      }
      if (request.flags & KeyRequest::kPush) {
        if (request.clock < block.clock(worker) || request.version > block.version()) {
          throw Error(fmt::format("rank {} pushed what cannot have happened yet", rank), kRemedy);
        }
        if (!(request.rate >= 0 && request.rate <= 1)) {
          throw Error(fmt::format("rank {} wants {} times the learning rate", rank, request.rate),
                      kRemedy);
        }
        if (!sent_before_training_) sent_before_training_ = bytes_sent();
        block.arrived({worker, request.clock, request.version, landing.span(), request.rate});
      }
      if (request.flags & KeyRequest::kSettle) {  // we listen again only when a push has settled
        WeightsHeader header = header_for(worker, block);
        co_await group_.send(rank, pull_channel(key), object_bytes(header));
      }
      if (request.flags & KeyRequest::kPull) {
        // The gradient's memory is free by the time we answer, and still in the cache.
        if (!has_values) landing.lend(block.weights().size_bytes());
        if (options_.codec.codes() && !(request.flags & KeyRequest::kWhole)) {
          co_await tell_difference(worker, held, landing.span(), code);
        } else {
          co_await answer(worker, held, landing.span());
        }
      }
    }
  }

  static WeightsHeader header_for(int worker, const Block& block) {
    return {block.version(), block.clock(worker), block.closed()};
  }

  Task<> answer(int worker, Held& held, std::span<float> room) {
    Block& block = held.block;
    Task<std::span<const float>> reading = block.read(worker, room);
    const std::span<const float> fresh = co_await reading;
    WeightsHeader header = header_for(worker, block);
    co_await group_.send(rank_of(worker), pull_channel(held.info.key), object_bytes(header),
                         bytes_of(fresh));
  }

  Task<> tell_difference(int worker, Held& held, std::span<float> room,
                         std::vector<std::byte>& code) {
    Block& block = held.block;
    co_await block.read_difference(worker, room);
    {
      const auto encoding = group_.record(Timeline::Kind::encode, "encode");
      Codec& writer = *held.writers[static_cast<std::size_t>(worker)];
      writer.encode(room, code);
      writer.add_decoded(code, block.read_by(worker));
    }
    WeightsHeader header = header_for(worker, block);
    co_await group_.send(rank_of(worker), pull_channel(held.info.key), object_bytes(header),
                         ConstBytes(code));
  }

  // The gradient's code has landed, and becomes the gradient.
  void decode(const Held& held, Landing& landing) {
    const auto decoding = group_.record(Timeline::Kind::encode, "decode");
    const std::size_t bytes = landing.bytes();
    const Scratch<float> code = landing.take();
    landing.lend(held.info.elements * sizeof(float));
    std::ranges::fill(landing.span(), 0.0f);
    held.reader->add_decoded(bytes_of(code.span()).first(bytes), landing.span());
  }

  // The gradient as activations, which have landed, and errors, multiplied out here.
  Task<> multiply_factors(int rank, std::uint64_t key, const KeyRequest& request,
                          std::size_t elements, Landing& landing) {
    const Factors::Shape shape{request.batch, request.inputs, request.outputs};
    if (!shape.holds(request.offset, elements) || landing.span().size() != shape.activations()) {
      throw Error(fmt::format("rank {} sent factors that do not fit their block", rank), kRemedy);
    }
    const Scratch<float> activations = landing.take();
    const Scratch<float> errors = group_.lend<float>(shape.errors());
    co_await group_.receive(rank, errors_channel(key), errors.span());
    landing.lend(elements * sizeof(float));
    multiply({shape, activations.span(), errors.span()}, request.offset, landing.span());
  }

  // Whenever the slowest worker has moved on, all that want it get the fresh weights. While one
  // message is still on its way, newer ones wait and become one.
  Task<> scatter_eagerly(int worker, Held& held) {
    const int rank = rank_of(worker);
    Block& block = held.block;
    const Channel channel = eager_channel(held.info.key);
    std::vector<float> copy(block.weights().size());
    std::uint64_t sent = 0;
    while (true) {
      while (block.closed() <= sent || of(worker).done) co_await block.changed().rung();
      sent = block.closed();
      const std::uint64_t included = block.clock(worker) - (block.is_waiting(worker) ? 1 : 0);
      WeightsHeader header{block.version(), included, sent};
      std::ranges::copy(block.weights(), copy.begin());
      co_await group_.send(rank, channel, object_bytes(header), bytes_of(std::span(copy)));
    }
  }

  std::uint64_t bytes_sent() const { return group_.ledger().total(Direction::sent).wire; }

  bool everybody_is_done() const { return std::ranges::all_of(workers_, &Worker::done); }

  void leave(int worker) {
    if (of(worker).done) return;
    of(worker).done = true;
    clerk_.leave(worker);
    for (Held& held : blocks_) held.block.leave(worker);
    if (!everybody_is_done()) return;
    training_bytes_sent_ = bytes_sent() - sent_before_training_.value_or(bytes_sent());
    all_done_.ring();
  }

  Task<> watch_for_silence() {
    while (group_.loop().now() < heard_ + options_.timeout) {
      co_await sleep_until(group_.loop(), heard_ + options_.timeout);
    }
    throw DeadlineExceeded(
        fmt::format("no worker has said a word for {} s", options_.timeout.count()),
        "they may be stopped or very slow; --timeout grants more time");
  }

  Group group_;
  ServerOptions options_;
  std::unique_ptr<Gate> gate_;
  Clerk clerk_;
  ServerReport report_;
  std::vector<Worker> workers_;
  std::optional<WorkPlan> plan_;
  std::list<Held> blocks_;
  Time heard_;
  std::optional<std::uint64_t> sent_before_training_;
  std::uint64_t training_bytes_sent_ = 0;
  Bell all_done_;
  Block::Follower follower_;
};

Server::Server(Group group, const ServerOptions& options)
    : desk_(std::make_unique<Desk>(group, options)) {
  if (make_gate(options.gate)->needs_everybody()) return;
  group.first(options.workers * options.worker_stride, 0).contain_losses();
}
Server::~Server() = default;

Task<> Server::serve() { return desk_->serve(); }
const ServerReport& Server::report() const { return desk_->report(); }
std::uint64_t Server::training_bytes_sent() const { return desk_->training_bytes_sent(); }
void Server::follow(Block::Follower follower) { desk_->follow(std::move(follower)); }

}  // namespace starling
