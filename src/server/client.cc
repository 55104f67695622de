#include "server/client.h"

#include <fmt/format.h>

#include "base/error.h"

namespace starling {

ServerClient::ServerClient(Group group, const Options& options, std::vector<Key> keys)
    : group_(group), options_(options), keys_(std::move(keys)), held_(keys_.size()) {
  if (keys_.size() > kMaxKeys) {
    throw Error(fmt::format("the model is cut into {} blocks, and servers can tell {} apart",
                            keys_.size(), kMaxKeys),
                "a larger bucket_kb makes fewer");
  }
}

Task<> ServerClient::hello(const WorkPlan& plan) {
  for (int server = 0; server < options_.servers; ++server) {
    std::vector<KeyInfo> infos;
    for (std::size_t key = 0; key < keys_.size(); ++key) {
      if (keys_[key].server == server) infos.push_back({key, keys_[key].range.size()});
    }
    ControlRequest hello;
    hello.wants_eager = options_.wants_eager ? 1 : 0;
    hello.keys = infos.size();
    hello.units = plan.units;
    hello.units_per_epoch = plan.units_per_epoch;
    const int rank = options_.first_server + server;
    co_await group_.send(rank, kRequestChannel, object_bytes(hello));
    co_await group_.send(rank, kRequestChannel, std::span(infos));
  }
}

Task<> ServerClient::put(std::size_t key, std::span<const float> weights) {
  KeyRequest request;
  request.flags = KeyRequest::kPut;
  co_await group_.send(server_of(key), key_request_channel(key), object_bytes(request));
  co_await group_.send(server_of(key), put_channel(key), weights);
}

Task<> ServerClient::push(std::size_t key, std::span<const float> gradient, std::uint64_t clock) {
  KeyRequest request;
  request.flags = KeyRequest::kPush;
  request.clock = clock;
  request.version = held_[key].version;
  auto header =
      group_.send_with_next(server_of(key), key_request_channel(key), object_bytes(request));
  auto values = group_.send(server_of(key), push_channel(key), gradient);
  co_await header;
  co_await values;
}

Task<> ServerClient::push(std::size_t key, const Factors& factors, std::size_t offset,
                          std::uint64_t clock) {
  KeyRequest request;
  request.flags = KeyRequest::kPush | KeyRequest::kFactors;
  request.batch = static_cast<std::uint32_t>(factors.shape.batch);
  request.inputs = static_cast<std::uint32_t>(factors.shape.inputs);
  request.outputs = static_cast<std::uint32_t>(factors.shape.outputs);
  request.offset = offset;
  request.clock = clock;
  request.version = held_[key].version;
  auto header =
      group_.send_with_next(server_of(key), key_request_channel(key), object_bytes(request));
  auto activations = group_.send(server_of(key), factors_channel(key), factors.activations);
  auto errors = group_.send(server_of(key), factors_channel(key), factors.errors);
  co_await header;
  co_await activations;
  co_await errors;
}

Task<WeightsHeader> ServerClient::push_pull(std::size_t key, std::span<const float> gradient,
                                            std::uint64_t clock, std::span<float> into) {
  KeyRequest request;
  request.flags = KeyRequest::kPush | KeyRequest::kPull;
  request.clock = clock;
  request.version = held_[key].version;
  const int server = server_of(key);
  WeightsHeader weights;
  auto header = group_.receive(server, pull_channel(key), object_bytes(weights));
  auto fresh = group_.receive(server, pull_channel(key), into);
  auto asked = group_.send_with_next(server, key_request_channel(key), object_bytes(request));
  auto pushed = group_.send(server, push_channel(key), gradient);
  co_await asked;
  co_await pushed;
  co_await header;
  co_await fresh;
  co_return weights;
}

Task<WeightsHeader> ServerClient::pull(std::size_t key, std::span<float> into) {
  KeyRequest request;
  request.flags = KeyRequest::kPull;
  const int server = server_of(key);
  WeightsHeader weights;
  auto header = group_.receive(server, pull_channel(key), object_bytes(weights));
  auto fresh = group_.receive(server, pull_channel(key), into);
  co_await group_.send(server, key_request_channel(key), object_bytes(request));
  co_await header;
  co_await fresh;
  co_return weights;
}

Task<> ServerClient::settle(std::size_t key) {
  KeyRequest request;
  request.flags = KeyRequest::kSettle;
  WeightsHeader settled;
  auto answer = group_.receive(server_of(key), pull_channel(key), object_bytes(settled));
  co_await group_.send(server_of(key), key_request_channel(key), object_bytes(request));
  co_await answer;
}

Task<WeightsHeader> ServerClient::next_eager(std::size_t key, std::span<float> into) {
  WeightsHeader weights;
  auto header = group_.receive(server_of(key), eager_channel(key), object_bytes(weights));
  auto fresh = group_.receive(server_of(key), eager_channel(key), into);
  co_await header;
  co_await fresh;
  co_return weights;
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
