// Yardstick: the float32 sum all-reduce of Gloo over its TCP transport, on 127.0.0.1 or in a lab.
//
// One process a rank. Ranks find each other through files in --store, under a --prefix that no
// earlier run has used. For four ranks:
//
//   store=$(mktemp -d)
//   for r in 1 2 3 0; do starling-peer-gloo --rank $r --size 4 --store $store & done; wait
//
// Rank 0 prints a line of JSON a size.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <utility>

#include "allreduce_yardstick.h"

namespace {

struct GlooOptions {
  int rank = 0;
  int size = 0;
  std::string store;
  std::string prefix = "run";
  std::string algorithm = "ring";
};

std::shared_ptr<gloo::Context> connect(const GlooOptions& options) {
  const std::filesystem::path run = std::filesystem::path(options.store) / options.prefix;
  std::filesystem::create_directories(run);
  // The addresses of a finished run would send us to ports that nobody listens on any more.
  if (!std::filesystem::create_directory(run / fmt::format("rank-{}", options.rank))) {
    throw std::runtime_error(
        fmt::format("{} was used by an earlier run; give another --prefix", run.string()));
  }
  gloo::rendezvous::FileStore store(run);
  gloo::transport::tcp::attr where("127.0.0.1");
  if (const char* interface = std::getenv("STARLING_INTERFACE")) {  // a lab's host
    where = {};
    where.iface = interface;
  }
  auto device = gloo::transport::tcp::CreateDevice(where);
  auto context = std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
  context->connectFullMesh(store, device);
  return context;
}

class GlooPeer : public yardstick::Peer {
 public:
  GlooPeer(std::shared_ptr<gloo::Context> context, std::string algorithm)
      : Peer(context->rank, context->size),
        context_(std::move(context)),
        algorithm_(std::move(algorithm)) {}

  std::function<void()> bind_all_reduce(std::span<float> buffer) override {
    using Algorithm = gloo::AllreduceOptions::Algorithm;
    if (algorithm_ == "ring") return bind_function(buffer, Algorithm::RING);
    if (algorithm_ == "bcube") return bind_function(buffer, Algorithm::BCUBE);
    if (algorithm_ == "ring-chunked") return bind_class<gloo::AllreduceRingChunked<float>>(buffer);
    return bind_class<gloo::AllreduceHalvingDoubling<float>>(buffer);
  }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  std::int64_t value_of_rank_0(std::int64_t value) override {
    gloo::BroadcastOptions options(context_);
    options.setOutput(&value, 1);
    options.setRoot(0);
    gloo::broadcast(options);
    return value;
  }

 private:
  /// Gloo's newer API: one function, the algorithm is an option.
  std::function<void()> bind_function(std::span<float> buffer,
                                      gloo::AllreduceOptions::Algorithm algorithm) {
    auto options = std::make_shared<gloo::AllreduceOptions>(context_);
    options->setAlgorithm(algorithm);
    options->setOutput(buffer.data(), buffer.size());
    void (*sum)(void*, const void*, const void*, std::size_t) = &gloo::sum<float>;
    options->setReduceFunction(sum);
    return [options] { gloo::allreduce(*options); };
  }

  /// Gloo's older API: a class for each algorithm.
  template <typename Algorithm>
  std::function<void()> bind_class(std::span<float> buffer) {
    auto algorithm = std::make_shared<Algorithm>(context_, std::vector<float*>{buffer.data()},
                                                 static_cast<int>(buffer.size()));
    return [algorithm] { algorithm->run(); };
  }

  std::shared_ptr<gloo::Context> context_;
  std::string algorithm_;
};

}  // namespace

int main(int argc, char** argv) {
  GlooOptions gloo_options;
  yardstick::Options options;
  CLI::App app{"Times Gloo's float32 sum all-reduce over TCP. Start one process a rank."};
  app.add_option("--rank", gloo_options.rank, "This process, from 0")
      ->required()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--size", gloo_options.size, "How many ranks")
      ->required()
      ->check(CLI::Range(1, 1024));
  app.add_option("--store", gloo_options.store, "Directory in which the ranks meet")->required();
  app.add_option("--prefix", gloo_options.prefix, "Name of this run inside --store")
      ->capture_default_str();
  app.add_option("--algorithm", gloo_options.algorithm, "Which of Gloo's algorithms")
      ->capture_default_str()
      ->check(CLI::IsMember({"ring", "halving-doubling", "bcube", "ring-chunked"}));
  yardstick::add_options(app, options);
  try {
    app.parse(argc, argv);
    if (gloo_options.rank >= gloo_options.size) {
      throw CLI::ValidationError("--rank", "must be smaller than --size");
    }
    GlooPeer peer(connect(gloo_options), gloo_options.algorithm);
    yardstick::run(peer, options, "gloo", gloo_options.algorithm);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const std::exception& error) {
    fmt::print(stderr, "starling-peer-gloo: {}\n", error.what());
    return 1;
  }
  return 0;
}
