#include "server/client.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "math/vector_math.h"

namespace starling {

ServerClient::ServerClient(Group group, const Options& options, std::vector<Key> keys)
    : group_(group),
      options_(options),
      chain_{options.first_server, options.servers, options.replicas, options.newcomer},
      keys_(std::move(keys)),
      held_(keys_.size()),
      positions_(static_cast<std::size_t>(options.servers)),
      changed_(group.loop()) {
  if (keys_.size() > kMaxKeys) {
    throw Error(fmt::format("the model is cut into {} blocks, and servers can tell {} apart",
                            keys_.size(), kMaxKeys),
                "a larger bucket_kb makes fewer");
  }
  if (chain_.replicates()) lines_.resize(keys_.size());
  if (!options.codec.codes()) return;
  codings_.resize(keys_.size());
  for (std::size_t key = 0; key < keys_.size(); ++key) {
    const auto worker = static_cast<std::uint64_t>(group.rank());
    codings_[key].pushes = options.codec.for_pushes(worker, key);
    codings_[key].pulls = options.codec.for_pulls(worker, key);
    codings_[key].residual.resize(keys_[key].range.size());
    codings_[key].told.resize(keys_[key].range.size());
  }
}

ConstBytes ServerClient::written(std::size_t key, std::span<const float> gradient, Code& code) {
  if (codings_.empty()) return bytes_of(gradient);
  const auto encoding = group_.record(Timeline::Kind::encode, "encode");
  Coding& coding = codings_[key];
  if (options_.codec.settings.feedback) {
    add(coding.residual, gradient);
  } else {
    std::ranges::copy(gradient, coding.residual.begin());
  }
  coding.pushes->encode(coding.residual, code.bytes);
  return code.bytes;
}

KeyRequest ServerClient::request(std::size_t key, std::uint32_t flags, std::uint64_t clock) const {
  KeyRequest request;
  request.flags = flags;
  request.clock = clock;
  request.version = held_[key].version;
  request.rate = rate_;
  return request;
}

Task<> ServerClient::send(std::size_t key, KeyRequest request, ConstBytes values,
                          ConstBytes errors) {
  const Purpose purpose = request.flags & KeyRequest::kPut    ? Purpose::weights
                          : request.flags & KeyRequest::kPush ? Purpose::gradients
                                                              : Purpose::control;
  const int server = server_of(key);
  auto asking = group_.send(server, request_channel(key, purpose), object_bytes(request), values);
  if (request.flags & KeyRequest::kFactors) {
    co_await group_.send(server, errors_channel(key), errors);
  }
  co_await asking;
}

Receive ServerClient::answer(std::size_t key, const KeyRequest& request, WeightsHeader& header,
                             std::span<float> into, Code& code) const {
  const int server = server_of(key);
  const bool coded = request.flags & KeyRequest::kPull && !(request.flags & KeyRequest::kWhole);
  if (codings_.empty() || !coded) {
    return group_.receive(server, pull_channel(key), object_bytes(header), writable_bytes(into));
  }
  return group_.receive(server, pull_channel(key), object_bytes(header),
                        codings_[key].pulls->largest_code_bytes(into.size()), code);
}

void ServerClient::take_in(std::size_t key, const KeyRequest& request, const Code& code,
                           std::span<float> into) {
  if (codings_.empty() || !(request.flags & KeyRequest::kPull)) return;
  std::vector<float>& told = codings_[key].told;
  if (request.flags & KeyRequest::kWhole) {
    std::ranges::copy(into, told.begin());
    return;
  }
  const auto decoding = group_.record(Timeline::Kind::encode, "decode");
  codings_[key].pulls->add_decoded(code.bytes, told);
  std::ranges::copy(told, into.begin());
}

// A place in the line of a key: whoever has been sent is followed by the next, and when the shard
// has another head, all that are still under way are sent again, from the first.
class ServerClient::Place {
 public:
  Place(ServerClient& client, std::size_t key)
      : client_(client),
        line_(client.lines_[key]),
        shard_(client.shard_of(key)),
        number_(client.next_number_++) {
    line_.numbers.push_back(number_);
  }
  Place(const Place&) = delete;
  ~Place() {
    const auto place = std::ranges::find(line_.numbers, number_);
    if (static_cast<std::size_t>(place - line_.numbers.begin()) < line_.sent) --line_.sent;
    line_.numbers.erase(place);
    client_.changed_.ring();
  }

  Task<> until_next() {
    while (!is_next()) co_await client_.changed_.rung();
  }
  // To whom we were next: by now there may be another.
  void sent() {
    if (line_.position != position_) return;
    ++line_.sent;
    client_.changed_.ring();
  }

 private:
  bool is_next() {
    if (client_.failure_) std::rethrow_exception(client_.failure_);
    position_ = client_.position_of(shard_);
    if (std::exchange(line_.position, position_) != position_) line_.sent = 0;
    return line_.sent < line_.numbers.size() && line_.numbers[line_.sent] == number_;
  }

  ServerClient& client_;
  Line& line_;
  int shard_;
  std::uint64_t number_;
  int position_ = 0;
};

Task<WeightsHeader> ServerClient::ask(std::size_t key, KeyRequest request, ConstBytes values,
                                      std::span<float> into, ConstBytes errors) {
  if (chain_.replicates()) return ask_until_answered(key, request, values, into, errors);
  return ask_once(key, request, values, into, errors, nullptr);
}

Task<WeightsHeader> ServerClient::ask_once(std::size_t key, KeyRequest request, ConstBytes values,
                                           std::span<float> into, ConstBytes errors, Place* place) {
  WeightsHeader header;
  Code told(spare_);
  auto fresh = answer(key, request, header, into, told);
  co_await send(key, request, values, errors);
  if (place != nullptr) place->sent();
  co_await fresh;
  take_in(key, request, told, into);
  co_return header;
}

Task<WeightsHeader> ServerClient::ask_until_answered(std::size_t key, KeyRequest request,
                                                     ConstBytes values, std::span<float> into,
                                                     ConstBytes errors) {
  const int shard = shard_of(key);
  Place place(*this, key);
  while (true) {
    co_await place.until_next();
    const int position = position_of(shard);
    const bool is_told = !codings_.empty() && (request.flags & KeyRequest::kPull);
    if (is_told && codings_[key].told_by != position) request.flags |= KeyRequest::kWhole;
    try {
      Task<WeightsHeader> once = ask_once(key, request, values, into, errors, &place);
      const WeightsHeader header = co_await once;
      if (is_told) codings_[key].told_by = position;
      co_return header;
    } catch (const PeerLost& lost) {
      if (!has_a_successor(shard, lost)) throw;
    }
    co_await until_moved_on(shard, position);
  }
}

Task<> ServerClient::put(std::size_t key, std::span<const float> weights) {
  const KeyRequest put = request(key, KeyRequest::kPut);
  if (chain_.replicates()) return push_safely(key, put, bytes_of(weights), {});
  return send(key, put, bytes_of(weights));
}

Task<> ServerClient::push(std::size_t key, std::span<const float> gradient, std::uint64_t clock) {
  const KeyRequest push = request(key, KeyRequest::kPush, clock);
  Code code(spare_);
  const ConstBytes values = written(key, gradient, code);
  if (chain_.replicates()) {
    co_await push_safely(key, push, values, {});
  } else {
    co_await send(key, push, values);
  }
}

Task<> ServerClient::push(std::size_t key, const Factors& factors, std::size_t offset,
                          std::uint64_t clock) {
  KeyRequest push = request(key, KeyRequest::kPush | KeyRequest::kFactors, clock);
  push.batch = static_cast<std::uint32_t>(factors.shape.batch);
  push.inputs = static_cast<std::uint32_t>(factors.shape.inputs);
  push.outputs = static_cast<std::uint32_t>(factors.shape.outputs);
  push.offset = offset;
  const ConstBytes activations = bytes_of(factors.activations), errors = bytes_of(factors.errors);
  if (chain_.replicates()) return push_safely(key, push, activations, errors);
  return send(key, push, activations, errors);
}

// Keeps a copy, and goes on sending it until it is answered.
Task<> ServerClient::push_safely(std::size_t key, KeyRequest request, ConstBytes values,
                                 ConstBytes errors) {
  constexpr std::size_t kMostUnsafe = 16;  // of a key
  forget_safe_pushes();
  while (lines_[key].numbers.size() >= kMostUnsafe) {
    co_await changed_.rung();
    forget_safe_pushes();
  }
  Unsafe& push = unsafe_.emplace_back(spare_);
  push.request = request;
  push.request.flags |= KeyRequest::kSettle;
  push.values.bytes.assign(values.begin(), values.end());
  push.errors.bytes.assign(errors.begin(), errors.end());
  push.running.emplace(deliver(key, push));
}

Task<> ServerClient::deliver(std::size_t key, Unsafe& push) {
  Task<WeightsHeader> safe = ask(key, push.request, push.values.bytes, {}, push.errors.bytes);
  co_await safe;
}

void ServerClient::forget_safe_pushes() {
  std::erase_if(unsafe_, [](const Unsafe& push) {
    push.running->rethrow_failure();
    return push.running->done();
  });
}

Task<WeightsHeader> ServerClient::push_pull(std::size_t key, std::span<const float> gradient,
                                            std::uint64_t clock, std::span<float> into) {
  Code code(spare_);
  const ConstBytes values = written(key, gradient, code);
  Task<WeightsHeader> answer =
      ask(key, request(key, KeyRequest::kPush | KeyRequest::kPull, clock), values, into);
  const WeightsHeader header = co_await answer;
  co_return header;
}

Task<WeightsHeader> ServerClient::pull(std::size_t key, std::span<float> into) {
  return ask(key, request(key, KeyRequest::kPull), {}, into);
}

Task<WeightsHeader> ServerClient::pull_whole(std::size_t key, std::span<float> into) {
  return ask(key, request(key, KeyRequest::kPull | KeyRequest::kWhole), {}, into);
}

Task<> ServerClient::settle(std::size_t key) {
  Task<WeightsHeader> settled = ask(key, request(key, KeyRequest::kSettle), {}, {});
  co_await settled;
}

Task<WeightsHeader> ServerClient::next_eager(std::size_t key, std::span<float> into) {
  const int shard = shard_of(key);
  while (true) {
    const int position = position_of(shard);
    WeightsHeader header;
    try {
      co_await group_.receive(server_of(key), eager_channel(key), object_bytes(header),
                              writable_bytes(into));
      co_return header;
    } catch (const PeerLost& lost) {
      if (!has_a_successor(shard, lost)) throw;
    }
    co_await until_moved_on(shard, position);
  }
}

Task<> ServerClient::hello(WorkPlan plan) {
  plan_ = plan;
  for (int shard = 0; shard < options_.servers; ++shard) {
    co_await say(shard, position_of(shard), ControlRequest::Kind::hello);
  }
  if (takes_over()) watching_.emplace(watch_heads());
}

Task<ServerReport> ServerClient::done() {
  while (!unsafe_.empty()) {
    Running& running = *unsafe_.front().running;
    co_await running;
    forget_safe_pushes();
  }
  is_done_ = true;
  for (int shard = 0; shard < options_.servers; ++shard) {
    co_await say(shard, position_of(shard), ControlRequest::Kind::done);
  }
  ServerReport total;
  for (int shard = 0; shard < options_.servers; ++shard) {
    DoneReply reply;
    while (reply.everybody_is_done == 0) {
      const int position = position_of(shard);
      try {
        co_await group_.receive(head_of(shard), reply_channel_of(shard), object_bytes(reply));
        continue;
      } catch (const PeerLost& lost) {
        if (!has_a_successor(shard, lost)) throw;
      }
      co_await until_moved_on(shard, position);
    }
    total += reply.report;
  }
  co_return total;
}

Task<> ServerClient::save(std::uint64_t step) {
  for (int shard = 0; shard < options_.servers; ++shard) {
    const int position = position_of(shard);
    co_await say(shard, position, ControlRequest::Kind::save, step);
    WorkReply copied;
    try {
      co_await group_.receive(head_of(shard), reply_channel_of(shard), object_bytes(copied));
    } catch (const PeerLost& lost) {  // who takes over keeps its state the next time
      if (!has_a_successor(shard, lost)) throw;
    }
  }
}

void ServerClient::visit_state(State state) {
  state("held", held_);
  for (std::size_t key = 0; key < codings_.size(); ++key) {
    const State part = state.in(key);
    part("residual", codings_[key].residual);
    part("told", codings_[key].told);
    codings_[key].pushes->visit_state(part.in("pushes"));
  }
}

Task<> ServerClient::bye() {
  for (int shard = 0; shard < options_.servers; ++shard) {
    for (int position = position_of(shard); position < options_.replicas; ++position) {
      co_await say(shard, position, ControlRequest::Kind::bye);
    }
  }
}

// To whoever stands there. If it is lost, and there are others, they will hear of it when it is
// their turn.
Task<> ServerClient::say(int shard, int position, ControlRequest::Kind kind, std::uint64_t step) {
  ControlRequest request;
  request.kind = kind;
  request.wants_eager = options_.wants_eager ? 1 : 0;
  request.units = plan_.units;
  request.units_per_epoch = plan_.units_per_epoch;
  request.step = step;
  std::vector<KeyInfo> infos;
  for (std::size_t key = 0; key < keys_.size() && kind == ControlRequest::Kind::hello; ++key) {
    if (keys_[key].server != shard) continue;
    infos.push_back({key, keys_[key].range.size(), keys_[key].range.begin});
  }
  const int rank = chain_.rank_at(shard, position);
  try {
    co_await group_.send(rank, request_channel_at(chain_.distance(shard, rank)),
                         object_bytes(request), bytes_of(std::span(infos)));
  } catch (const PeerLost& lost) {
    if (!takes_over() || lost.rank() != group_.in_comm(rank)) throw;
  }
}

bool ServerClient::has_a_successor(int shard, const PeerLost& lost) const {
  for (int position = 0; position < position_of(shard) + 1; ++position) {
    if (lost.rank() == group_.in_comm(chain_.rank_at(shard, position))) {
      return takes_over();
    }
  }
  return false;
}

Task<> ServerClient::until_moved_on(int shard, int position) {
  while (position_of(shard) == position && !failure_) co_await changed_.rung();
  if (failure_) std::rethrow_exception(failure_);
}

// The next in its chain is told who we are, whether or not we want something of it: it may have to
// know that we are done, or it waits for us.
Task<> ServerClient::watch_heads() {
  while (true) {
    for (int rank = 0; rank < options_.needed_workers && !failure_; ++rank) {
      if (!group_.is_lost(rank)) continue;
      const int worker = group_.in_comm(rank);
      failure_ = std::make_exception_ptr(
          PeerLost(worker, fmt::format("rank {} was lost, which the servers wait for", worker)));
      changed_.ring();
    }
    for (int shard = 0; shard < options_.servers && !failure_; ++shard) {
      if (group_.is_lost(head_of(shard))) move_on(shard);
    }
    co_await group_.losses().rung();
  }
}

void ServerClient::move_on(int shard) {
  int& position = positions_[static_cast<std::size_t>(shard)];
  const int last = group_.in_comm(chain_.rank_at(shard, options_.replicas - 1));
  while (position < options_.replicas && group_.is_lost(head_of(shard))) ++position;
  if (position == options_.replicas) {
    position = options_.replicas - 1;
    failure_ = std::make_exception_ptr(PeerLost(
        last, fmt::format("rank {} was lost, which had the last copy of shard {}", last, shard),
        "more replicas can do without more servers"));
  } else {
    saying_.emplace_back(introduce(shard, position));
  }
  changed_.ring();
}

Task<> ServerClient::introduce(int shard, int position) {
  co_await say(shard, position, ControlRequest::Kind::hello);
  if (is_done_) co_await say(shard, position, ControlRequest::Kind::done);
}

}  // namespace starling
