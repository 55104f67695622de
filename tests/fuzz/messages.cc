// Messages of a worker that has gone mad: letters to another one, requests to a server.
#include <list>

#include "base/error.h"
#include "mixing/mixing.h"
#include "server/messages.h"
#include "server/server.h"
#include "sim/cluster.h"
#include "tests/fuzz/fuzz.h"

namespace starling {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kElements = 6;
constexpr std::uint64_t kBlocks = 2;

Task<> swallow_errors(Task<> task) {
  try {
    co_await task;
  } catch (const Error&) {
  }
}

// One message after another, as the pieces say: channel, head, bytes. Waits for none of them.
Task<> rave(Group group, int to, Pieces pieces, std::vector<Channel> channels) {
  struct Sent {
    std::vector<std::byte> head, bytes;
    std::optional<Send> send;
  };
  std::list<Sent> all;
  while (!pieces.empty()) {
    const Channel channel = channels[pieces.number() % channels.size()];
    const ConstBytes head = pieces.take(pieces.number() % 65);
    const ConstBytes bytes = pieces.take(pieces.number());
    Sent& next = all.emplace_back();
    next.head.assign(head.begin(), head.end());
    next.bytes.assign(bytes.begin(), bytes.end());
    next.send.emplace(group, to, channel, next.bytes, next.head);
    co_await sleep_until(group.loop(), group.loop().now() + 1ms);
  }
  co_await sleep_until(group.loop(), group.loop().now() + 10ms);
}

Task<> mix_with_one_who_raves(Group group, MixingSettings settings) {
  std::vector<float> weights(kElements, 1.0f);
  const auto mixing = make_mixing(settings, group, 1);
  co_await mixing->start(weights);
  for (std::uint64_t round = 0; round < 30; ++round) {
    mixing->set_clock(round);
    mixing->attend(weights);
    if (round % 4 == 0) co_await mixing->mix(weights, round);
    co_await sleep_until(group.loop(), group.loop().now() + 1ms);
  }
}

// What the server is told first makes sense: two blocks.
Task<> rave_at_server(Group group, Pieces pieces) {
  ControlRequest hello;
  hello.units = hello.units_per_epoch = 8;
  const std::vector<KeyInfo> keys = {{0, kElements}, {1, 3}};
  Send first(group, 1, kRequestChannel, bytes_of(std::span(keys)), object_bytes(hello));
  std::vector<Channel> channels = {kRequestChannel};
  for (std::uint64_t key = 0; key < kBlocks; ++key) {
    channels.push_back(request_channel(key));
    channels.push_back(errors_channel(key));
    channels.push_back(request_channel(key));
  }
  co_await rave(group, 1, pieces, channels);
}

Task<> serve_one_who_raves(Group group, ServerOptions options) {
  Server server(group, options);
  co_await server.serve();
}

}  // namespace

void fuzz_letters(ConstBytes input) {
  Pieces pieces(input);
  using Rule = MixingSettings::Rule;
  MixingSettings settings;
  settings.rule = std::array{Rule::elastic, Rule::elastic_push, Rule::sum_weight,
                             Rule::updates, Rule::penalty,      Rule::mean}[pieces.number() % 6];
  const bool star = settings.rule == Rule::penalty || pieces.number() % 2 == 0;
  settings.graph.kind = star ? GraphSettings::Kind::star : GraphSettings::Kind::mesh;
  settings.graph.size = 2;
  settings.waits = false;
  const auto codecs = names_of(CodecSettings::Kind{}).each;
  if (settings.rule == Rule::updates) {
    settings.codec.kind = named<CodecSettings::Kind>(codecs[pieces.number() % codecs.size()]);
  }
  const int sane = static_cast<int>(pieces.number() % 2);
  Cluster cluster(2, {{1e9, 10us}, {}});
  cluster.live([&](Comm& comm) {
    const Group group(comm);
    const std::vector<Channel> channels = {{0}, {1}, {2}, {3}};
    if (comm.rank() != sane) return swallow_errors(rave(group, sane, pieces, channels));
    return swallow_errors(mix_with_one_who_raves(group, settings));
  });
}

void fuzz_server(ConstBytes input) {
  Pieces pieces(input);
  ServerOptions options;
  const auto gates = names_of(GateSettings::Kind{}).each;
  options.gate.kind = named<GateSettings::Kind>(gates[pieces.number() % gates.size()]);
  const auto codecs = names_of(CodecSettings::Kind{}).each;
  options.codec.settings.kind = named<CodecSettings::Kind>(codecs[pieces.number() % codecs.size()]);
  Cluster cluster(2, {{1e9, 10us}, {}});
  cluster.live([&](Comm& comm) {
    const Group group(comm);
    if (comm.rank() == 0) return swallow_errors(rave_at_server(group, pieces));
    return swallow_errors(serve_one_who_raves(group, options));
  });
}

}  // namespace starling
