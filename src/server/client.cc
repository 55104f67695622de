#include "server/client.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "math/vector_math.h"

namespace starling {

ServerClient::ServerClient(Group group, const Options& options, std::vector<Key> keys)
    : group_(group), options_(options), keys_(std::move(keys)), held_(keys_.size()) {
  if (keys_.size() > kMaxKeys) {
    throw Error(fmt::format("the model is cut into {} blocks, and servers can tell {} apart",
                            keys_.size(), kMaxKeys),
                "a larger bucket_kb makes fewer");
  }
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

Receive ServerClient::answer(std::size_t key, WeightsHeader& header, std::span<float> into,
                             Code& code) const {
  const int server = server_of(key);
  if (codings_.empty()) {
    return group_.receive(server, pull_channel(key), object_bytes(header), writable_bytes(into));
  }
  return group_.receive(server, pull_channel(key), object_bytes(header),
                        codings_[key].pulls->largest_code_bytes(into.size()), code);
}

void ServerClient::take_in(std::size_t key, const Code& code, std::span<float> into) {
  if (codings_.empty()) return;
  const auto decoding = group_.record(Timeline::Kind::encode, "decode");
  codings_[key].pulls->add_decoded(code.bytes, codings_[key].told);
  std::ranges::copy(codings_[key].told, into.begin());
}

Task<> ServerClient::hello(WorkPlan plan) {
  for (int server = 0; server < options_.servers; ++server) {
    std::vector<KeyInfo> infos;
    for (std::size_t key = 0; key < keys_.size(); ++key) {
      if (keys_[key].server == server) infos.push_back({key, keys_[key].range.size()});
    }
    ControlRequest hello;
    hello.wants_eager = options_.wants_eager ? 1 : 0;
    hello.units = plan.units;
    hello.units_per_epoch = plan.units_per_epoch;
    co_await group_.send(options_.first_server + server, kRequestChannel, object_bytes(hello),
                         bytes_of(std::span(infos)));
  }
}

KeyRequest ServerClient::request(std::size_t key, std::uint32_t flags, std::uint64_t clock) const {
  KeyRequest request;
  request.flags = flags;
  request.clock = clock;
  request.version = held_[key].version;
  request.rate = rate_;
  return request;
}

Task<> ServerClient::put(std::size_t key, std::span<const float> weights) {
  KeyRequest put = request(key, KeyRequest::kPut);
  co_await group_.send(server_of(key), request_channel(key, Purpose::weights), object_bytes(put),
                       bytes_of(weights));
}

Task<> ServerClient::push(std::size_t key, std::span<const float> gradient, std::uint64_t clock) {
  KeyRequest push = request(key, KeyRequest::kPush, clock);
  Code code(spare_);
  const ConstBytes values = written(key, gradient, code);
  co_await group_.send(server_of(key), request_channel(key, Purpose::gradients), object_bytes(push),
                       values);
}

Task<> ServerClient::push(std::size_t key, const Factors& factors, std::size_t offset,
                          std::uint64_t clock) {
  KeyRequest push = request(key, KeyRequest::kPush | KeyRequest::kFactors, clock);
  push.batch = static_cast<std::uint32_t>(factors.shape.batch);
  push.inputs = static_cast<std::uint32_t>(factors.shape.inputs);
  push.outputs = static_cast<std::uint32_t>(factors.shape.outputs);
  push.offset = offset;
  auto activations = group_.send(server_of(key), request_channel(key, Purpose::gradients),
                                 object_bytes(push), bytes_of(factors.activations));
  auto errors = group_.send(server_of(key), errors_channel(key), factors.errors);
  co_await activations;
  co_await errors;
}

Task<WeightsHeader> ServerClient::push_pull(std::size_t key, std::span<const float> gradient,
                                            std::uint64_t clock, std::span<float> into) {
  KeyRequest both = request(key, KeyRequest::kPush | KeyRequest::kPull, clock);
  const int server = server_of(key);
  WeightsHeader header;
  Code code(spare_), told(spare_);
  auto fresh = answer(key, header, into, told);
  const ConstBytes values = written(key, gradient, code);
  co_await group_.send(server, request_channel(key, Purpose::gradients), object_bytes(both),
                       values);
  co_await fresh;
  take_in(key, told, into);
  co_return header;
}

Task<WeightsHeader> ServerClient::pull(std::size_t key, std::span<float> into) {
  KeyRequest pull = request(key, KeyRequest::kPull);
  WeightsHeader header;
  Code told(spare_);
  auto fresh = answer(key, header, into, told);
  co_await group_.send(server_of(key), request_channel(key), object_bytes(pull));
  co_await fresh;
  take_in(key, told, into);
  co_return header;
}

Task<WeightsHeader> ServerClient::pull_whole(std::size_t key, std::span<float> into) {
  KeyRequest pull = request(key, KeyRequest::kPull | KeyRequest::kWhole);
  WeightsHeader header;
  auto fresh =
      group_.receive(server_of(key), pull_channel(key), object_bytes(header), writable_bytes(into));
  co_await group_.send(server_of(key), request_channel(key), object_bytes(pull));
  co_await fresh;
  if (!codings_.empty()) std::ranges::copy(into, codings_[key].told.begin());
  co_return header;
}

Task<> ServerClient::settle(std::size_t key) {
  KeyRequest settle = request(key, KeyRequest::kSettle);
  WeightsHeader settled;
  auto answer = group_.receive(server_of(key), pull_channel(key), object_bytes(settled));
  co_await group_.send(server_of(key), request_channel(key), object_bytes(settle));
  co_await answer;
}

Task<WeightsHeader> ServerClient::next_eager(std::size_t key, std::span<float> into) {
  WeightsHeader header;
  co_await group_.receive(server_of(key), eager_channel(key), object_bytes(header),
                          writable_bytes(into));
  co_return header;
}

Task<ServerReport> ServerClient::done() {
  co_await tell_all(ControlRequest::Kind::done);
  ServerReport total;
  for (int server = 0; server < options_.servers; ++server) {
    DoneReply reply;
    while (reply.everybody_is_done == 0) {
      co_await group_.receive(options_.first_server + server, kReplyChannel, object_bytes(reply));
    }
    total += reply.report;
  }
  co_return total;
}

Task<> ServerClient::bye() { return tell_all(ControlRequest::Kind::bye); }

Task<> ServerClient::tell_all(ControlRequest::Kind kind) {
  for (int server = 0; server < options_.servers; ++server) {
    ControlRequest request;
    request.kind = kind;
    co_await group_.send(options_.first_server + server, kRequestChannel, object_bytes(request));
  }
}

}  // namespace starling
