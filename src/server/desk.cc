#include "server/desk.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "runtime/all.h"
#include "runtime/race.h"
#include "server/factors.h"
#include "server/messages.h"

namespace starling {

namespace {

int shard_of(Group group, const Chain& chain, int distance) {
  return (group.rank() - chain.first_server - distance + chain.servers) % chain.servers;
}

Task<> rung(Bell& bell) { co_await bell.rung(); }

WeightsHeader header_for(int worker, const Block& block) {
  return {block.version(), block.clock(worker), block.closed()};
}

}  // namespace

Desk::Desk(Group group, const ServerOptions& options, int distance, State past)
    : group_(group),
      options_(options),
      distance_(distance),
      number_(shard_of(group, options.chain, distance)),
      journal_(make_journal()),
      shard_(group.loop(), options, journal_ ? &*journal_ : nullptr, std::move(past)),
      wants_eager_(static_cast<std::size_t>(options.workers)),
      lost_before_(static_cast<std::size_t>(options.workers)),
      is_head_(!journal_ || options.chain.position_of(number_, group.rank()) == 0),
      head_(group.loop()),
      all_done_(group.loop()),
      heard_(group.loop().now()) {}

// Where any loss ends the generation, what is told to workers then would be safe with nobody.
std::optional<Journal> Desk::make_journal() {
  const Chain& chain = options_.chain;
  if (!chain.replicates()) return std::nullopt;
  return std::make_optional<Journal>(
      group_, chain, number_, chain.position_of(number_, group_.rank()),
      [this] { return !options_.elastic || shard_.everybody_is_done(); });
}

Task<> Desk::serve() {
  std::vector<Task<>> attendances;
  for (int worker = 0; worker < options_.workers; ++worker) attendances.push_back(attend(worker));
  std::vector<Task<>> meanwhile;
  meanwhile.push_back(watch_for_silence());
  if (journal_) meanwhile.push_back(journal_->send_on(shard_));
  if (!is_head_) meanwhile.push_back(be_a_replica());
  Task<int> until_over = race(all(std::move(attendances)), all(std::move(meanwhile)));
  co_await until_over;
}

Task<> Desk::be_a_replica() {
  co_await journal_->follow(
      [this](const Record& record, ConstBytes bytes) {
        heard_ = group_.loop().now();
        shard_.replay(record, bytes);
      },
      [this] { return shard_.largest_record_bytes(); }, [this] { return shard_.begin_anew(); });
  if (options_.chain.is_newcomer(group_.rank()) && shard_.begin_anew()) {
    if (!somebody_before_is_lost()) co_return;  // they are done
    throw Error(
        fmt::format("shard {} was lost before rank {} had got it", number_, group_.comm().rank()),
        "more replicas can do without more servers");
  }
  for (const std::exception_ptr& lost : lost_before_) {
    if (lost && shard_.gate().needs_everybody()) std::rethrow_exception(lost);
  }
  if (lost_before_[0] && !shard_.has_first_weights()) std::rethrow_exception(lost_before_[0]);
  is_head_ = true;
  head_.ring();
}

bool Desk::somebody_before_is_lost() const {
  for (int position = 0; position + 1 < options_.chain.replicas; ++position) {
    if (group_.is_lost(options_.chain.rank_at(number_, position))) return true;
  }
  return false;
}

Task<> Desk::until_head() {
  while (!is_head_) co_await head_.rung();
}

Task<> Desk::until_safe() {
  if (journal_) co_await journal_->until_safe();
}

// One worker, from its hello to its bye or its loss.
Task<> Desk::attend(int worker) {
  const auto place = static_cast<std::size_t>(worker);
  try {
    Task<bool> greeting = greet(worker);
    const bool comes = co_await greeting;
    std::vector<Task<>> services;
    if (comes) services.push_back(serve_work(worker));
    for (Held& held : shard_.blocks()) {
      if (!comes) break;
      services.push_back(serve_block(worker, held));
      if (wants_eager_[place]) services.push_back(scatter_eagerly(worker, held));
    }
    if (comes) {
      Task<int> until_bye = race(serve_control(worker), all(std::move(services)));
      co_await until_bye;
    }
  } catch (const PeerLost& lost) {
    judge_loss(worker, lost);
  }
  // What it has pushed lay in the memory of serve_block, which is somebody else's now.
  for (Held& held : shard_.blocks()) held.block.forget(worker);
  shard_.leave(worker);
  look_whether_all_are_done();
}

// Throws if we cannot do without it.
void Desk::judge_loss(int worker, const PeerLost& lost) {
  const int rank = group_.in_comm(rank_of(worker));
  if (lost.rank() != rank) throw;
  if (shard_.is_done(worker)) return;
  if (options_.elastic) throw;
  if (!is_head_) {
    lost_before_[static_cast<std::size_t>(worker)] = std::current_exception();
    return;
  }
  if (shard_.gate().needs_everybody() || (worker == 0 && !shard_.has_first_weights())) throw;
  spdlog::info("rank {} was lost; the others go on", rank);
}

// False: there is nothing that it would want of us.
Task<bool> Desk::greet(int worker) {
  struct Keys : Lender {
    std::optional<Bytes> lend(std::size_t bytes) override {
      if (bytes % sizeof(KeyInfo) != 0) throw Error("it sent part of a block", kSameSettings);
      keys.resize(bytes / sizeof(KeyInfo));
      return writable_bytes(std::span(keys));
    }
    std::vector<KeyInfo> keys;
  };
  ControlRequest hello;
  Keys told;
  co_await group_.receive(rank_of(worker), request_channel_at(distance_), object_bytes(hello),
                          kMaxKeys * sizeof(KeyInfo), told);
  heard_ = group_.loop().now();
  if (hello.kind == ControlRequest::Kind::bye && journal_) co_return false;
  if (hello.kind != ControlRequest::Kind::hello || hello.units_per_epoch == 0) {
    throw Error(fmt::format("rank {} did not say hello", rank_of(worker)), kSameSettings);
  }
  co_await until_head();
  const WorkPlan plan{hello.units, hello.units_per_epoch};
  wants_eager_[static_cast<std::size_t>(worker)] = hello.wants_eager != 0;
  if (!shard_.has_plan()) shard_.make(plan, told.keys);
  if (!shard_.is_of(plan, told.keys)) {
    throw Error(fmt::format("rank {} has another model or another amount of work than the others",
                            rank_of(worker)),
                kSameSettings);
  }
  co_return true;
}

Task<> Desk::serve_control(int worker) {
  const int rank = rank_of(worker);
  while (true) {
    ControlRequest request;
    co_await group_.receive(rank, request_channel_at(distance_), object_bytes(request));
    heard_ = group_.loop().now();
    switch (request.kind) {
      case ControlRequest::Kind::done: {
        shard_.done(worker);
        look_whether_all_are_done();
        co_await wait_for_the_others(rank);
        co_await until_safe();
        DoneReply reply{1, shard_.report()};
        co_await group_.send(rank, reply_channel_at(distance_), object_bytes(reply));
        break;
      }
      case ControlRequest::Kind::save: {
        if (keep_) keep_(request.step);
        WorkReply copied;
        co_await group_.send(rank, reply_channel_at(distance_), object_bytes(copied));
        break;
      }
      case ControlRequest::Kind::bye:
        co_return;
      default:
        throw Error(fmt::format("rank {} sent a request that makes no sense", rank), kSameSettings);
    }
  }
}

// Tells the one who waits, every now and then, that the others are still at work.
Task<> Desk::wait_for_the_others(int rank) {
  constexpr std::chrono::milliseconds kBetweenNews(500);
  for (Time told = heard_; !shard_.everybody_is_done();) {
    Task<int> news =
        race(rung(all_done_), sleep_until(group_.loop(), group_.loop().now() + kBetweenNews));
    co_await news;
    if (shard_.everybody_is_done() || heard_ == told) continue;
    told = heard_;
    DoneReply not_yet{0, shard_.report()};
    co_await group_.send(rank, reply_channel_at(distance_), object_bytes(not_yet));
  }
}

Task<> Desk::serve_work(int worker) {
  const int rank = rank_of(worker);
  while (true) {
    WorkRequest request;
    try {
      co_await group_.receive(rank, work_channel_at(distance_), object_bytes(request));
    } catch (const PeerLost&) {
      if (!shard_.is_done(worker)) throw;
      co_return;  // what it has pushed may still wait for others, and counts
    }
    heard_ = group_.loop().now();
    if (request.stop != 0) shard_.stop();
    if (request.asks == 0) continue;
    WorkReply reply;
    Task<std::uint64_t> next = shard_.next_unit(worker, request.answers);
    reply.unit = co_await next;
    co_await until_safe();
    co_await group_.send(rank, unit_channel_at(distance_), object_bytes(reply));
  }
}

// Memory for what one worker sends for a block, from its first byte until it has been applied and
// answered.
class Desk::Landing : public Lender {
 public:
  Landing(Group group, bool of_codes) : group_(group), of_codes_(of_codes) {}
  std::optional<Bytes> lend(std::size_t bytes) override {
    if (!of_codes_ && bytes % sizeof(float) != 0) {
      throw Error("it sent part of a number", kSameSettings);
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

Task<> Desk::serve_block(int worker, Held& held) {
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
                  kSameSettings);
    }
    if (request.flags & KeyRequest::kPut) {
      // What is there has been trained on meanwhile.
      if (!block.has_weights()) shard_.put(held, landing.span());
    }
    if (request.flags & KeyRequest::kPush) take_push(worker, request, block, landing.span());
    if (request.flags & KeyRequest::kSettle) {
      co_await block.until_applied(worker);
      WeightsHeader header = header_for(worker, block);
      co_await until_safe();
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

void Desk::take_push(int worker, const KeyRequest& request, Block& block,
                     std::span<float> gradient) {
  if (request.clock < block.clock(worker) && journal_) return;  // is in it already
  if (request.clock < block.clock(worker) || request.version > block.version()) {
    throw Error(fmt::format("rank {} pushed what cannot have happened yet", rank_of(worker)),
                kSameSettings);
  }
  if (!(request.rate >= 0 && request.rate <= 1)) {
    throw Error(
        fmt::format("rank {} wants {} times the learning rate", rank_of(worker), request.rate),
        kSameSettings);
  }
  if (!sent_before_training_) sent_before_training_ = bytes_sent();
  block.arrived({worker, request.clock, request.version, gradient, request.rate});
}

Task<> Desk::answer(int worker, Held& held, std::span<float> room) {
  Block& block = held.block;
  Task<std::span<const float>> reading = block.read(worker, room);
  const std::span<const float> fresh = co_await reading;
  WeightsHeader header = header_for(worker, block);
  co_await until_safe();
  co_await group_.send(rank_of(worker), pull_channel(held.info.key), object_bytes(header),
                       bytes_of(fresh));
}

Task<> Desk::tell_difference(int worker, Held& held, std::span<float> room,
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
  co_await until_safe();
  co_await group_.send(rank_of(worker), pull_channel(held.info.key), object_bytes(header),
                       ConstBytes(code));
}

// The gradient's code has landed, and becomes the gradient.
void Desk::decode(const Held& held, Landing& landing) {
  const auto decoding = group_.record(Timeline::Kind::encode, "decode");
  const std::size_t bytes = landing.bytes();
  const Scratch<float> code = landing.take();
  landing.lend(held.info.elements * sizeof(float));
  std::ranges::fill(landing.span(), 0.0f);
  held.reader->add_decoded(bytes_of(code.span()).first(bytes), landing.span());
}

// The gradient as activations, which have landed, and errors, multiplied out here.
Task<> Desk::multiply_factors(int rank, std::uint64_t key, const KeyRequest& request,
                              std::size_t elements, Landing& landing) {
  const Factors::Shape shape{request.batch, request.inputs, request.outputs};
  if (!shape.holds(request.offset, elements) || landing.span().size() != shape.activations()) {
    throw Error(fmt::format("rank {} sent factors that do not fit their block", rank),
                kSameSettings);
  }
  const Scratch<float> activations = landing.take();
  const Scratch<float> errors = group_.lend<float>(shape.errors());
  co_await group_.receive(rank, errors_channel(key), errors.span());
  landing.lend(elements * sizeof(float));
  multiply({shape, activations.span(), errors.span()}, request.offset, landing.span());
}

// Whenever the slowest worker has moved on, all that want it get the fresh weights. While one
// message is still on its way, newer ones wait and become one.
Task<> Desk::scatter_eagerly(int worker, Held& held) {
  const int rank = rank_of(worker);
  Block& block = held.block;
  const Channel channel = eager_channel(held.info.key);
  std::vector<float> copy(block.weights().size());
  std::uint64_t sent = 0;
  while (true) {
    while (block.closed() <= sent || shard_.is_done(worker)) co_await block.changed().rung();
    sent = block.closed();
    const std::uint64_t included = block.clock(worker) - (block.is_waiting(worker) ? 1 : 0);
    WeightsHeader header{block.version(), included, sent};
    std::ranges::copy(block.weights(), copy.begin());
    co_await until_safe();
    co_await group_.send(rank, channel, object_bytes(header), bytes_of(std::span(copy)));
  }
}

void Desk::look_whether_all_are_done() {
  if (!shard_.everybody_is_done() || training_bytes_sent_) return;
  training_bytes_sent_ = bytes_sent() - sent_before_training_.value_or(bytes_sent());
  all_done_.ring();
}

Task<> Desk::watch_for_silence() {
  while (group_.loop().now() < heard_ + options_.timeout) {
    co_await sleep_until(group_.loop(), heard_ + options_.timeout);
    // They have nothing more to say, and stay for as long as they like.
    if (options_.elastic && shard_.everybody_is_done()) heard_ = group_.loop().now();
  }
  throw DeadlineExceeded(
      fmt::format("no worker has said a word for {} s", options_.timeout.count()),
      "they may be stopped or very slow; --timeout grants more time");
}

}  // namespace starling
