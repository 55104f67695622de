// Yardstick: a plain parameter server on ZeroMQ, over TCP on 127.0.0.1. For four workers:
//
//   starling-peer-zmq --workers 4 --servers 2 --bytes 1000000,16000000 --seconds 2
//
// It forks its own servers and workers, afresh for each size, and prints a line of JSON a size.
// Vector: float32, --bytes long; every worker has one of gradients and one of weights. Shard: the
// part of the vectors that one server is in charge of; consecutive, all of one size or one element
// more. Round: a worker's push of its gradients and pull of fresh weights:
//
//   a. The worker (DEALER, one socket a server) sends each server its shard of the gradients.
//   b. A server (ROUTER) subtracts lr * gradient from its shard as soon as one arrives. In the same
//      pass it overwrites the gradients in the message with the weights as they then are, and sends
//      the message back.
//   c. The worker takes the answers into its weights, and goes on without waiting for the others.
//
// Nobody copies just to send: a worker lends ZeroMQ its gradients, which do not change before the
// answer is there. A server cannot lend its weights, which do change. TCP takes a message in pieces
// that begin anywhere, and with several workers one run in six got an element of which some bytes
// were older than the others. Writing into the message proved as fast as lending.
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxMembers = 64;                    // servers, and as many workers
constexpr std::int64_t kMaxBytes = 1 << 30;        // of a vector
constexpr std::chrono::seconds kPatience{60};      // for anything that has to come
constexpr std::chrono::milliseconds kWarmUp{500};  // TCP's buffers grow meanwhile
constexpr float kLearningRate = 1e-3F;
constexpr float kFirstWeight = 1.0F;
constexpr int kIoThreads = 2;         // of a process; a little faster than one in 9 of 12 cases
constexpr std::size_t kPeriod = 251;  // of the gradients; prime, so a misplaced shard shows

struct Options {
  int workers = 2;
  int servers = 1;
  std::vector<std::int64_t> sizes_bytes{1'000'000, 16'000'000};
  double seconds = 1.0;
};

std::runtime_error system_failure(const std::string& what) {
  return std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

// ---- What the processes share ----

/// Lies in memory that all processes map; it is zero at first.
struct Board {
  struct Server {
    std::array<char, 64> endpoint;
    std::atomic<bool> is_bound;
  };
  struct Worker {
    std::int64_t rounds;
    Clock::time_point begin;
    Clock::time_point end;
  };

  std::array<Server, kMaxMembers> servers;
  std::array<Worker, kMaxMembers> workers;
  std::atomic<int> arrivals;  // of workers, at all barriers so far
  std::atomic<bool> has_failed;
  std::array<char, 256> failure;  // the first one
};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

struct UnmapBoard {
  void operator()(Board* board) const { ::munmap(board, sizeof(Board)); }
};
using SharedBoard = std::unique_ptr<Board, UnmapBoard>;

SharedBoard map_board() {
  void* memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw system_failure("mmap");
  return SharedBoard(new (memory) Board{});
}

/// Naps between looks: all that is awaited here lies outside of the measured time.
template <typename Condition>
void wait_until(Condition condition, const std::string& what) {
  const auto deadline = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > deadline) {
      throw std::runtime_error(fmt::format("no {} within {} s", what, kPatience.count()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// ---- ZeroMQ ----

/// Calls until no signal interrupts it; throws what ZeroMQ has to say about a failure.
template <typename Call>
int checked(const char* what, Call call) {
  int result = call();
  while (result < 0 && zmq_errno() == EINTR) result = call();
  if (result >= 0) return result;
  if (zmq_errno() == EAGAIN) {
    throw std::runtime_error(fmt::format("{} took longer than {} s", what, kPatience.count()));
  }
  throw std::runtime_error(fmt::format("{}: {}", what, zmq_strerror(zmq_errno())));
}

struct EndContext {
  void operator()(void* context) const { zmq_ctx_term(context); }
};
using Context = std::unique_ptr<void, EndContext>;

struct CloseSocket {
  void operator()(void* socket) const { zmq_close(socket); }
};
using Socket = std::unique_ptr<void, CloseSocket>;

Context make_context() {
  Context context(zmq_ctx_new());
  if (!context) throw std::runtime_error("zmq_ctx_new failed");
  checked("zmq_ctx_set", [&] { return zmq_ctx_set(context.get(), ZMQ_IO_THREADS, kIoThreads); });
  return context;
}

Socket make_socket(const Context& context, int type) {
  Socket socket(zmq_socket(context.get(), type));
  if (!socket) throw std::runtime_error(fmt::format("zmq_socket: {}", zmq_strerror(zmq_errno())));
  const auto set = [&](int option, int value) {
    checked("zmq_setsockopt",
            [&] { return zmq_setsockopt(socket.get(), option, &value, sizeof value); });
  };
  const int patience_ms = static_cast<int>(std::chrono::milliseconds(kPatience).count());
  set(ZMQ_RCVTIMEO, patience_ms);
  set(ZMQ_SNDTIMEO, patience_ms);
  set(ZMQ_LINGER, 0);
  // A worker and a server have one message under way at most, so these never hold anyone up.
  set(ZMQ_SNDHWM, 4);
  set(ZMQ_RCVHWM, 4);
  // Tell us of a worker that is not there, instead of dropping what it should get.
  if (type == ZMQ_ROUTER) set(ZMQ_ROUTER_MANDATORY, 1);
  return socket;
}

class Message {
 public:
  Message() { zmq_msg_init(&message_); }
  /// Lends the values: they must stay where they are until the context has ended.
  explicit Message(std::span<float> values) {
    const auto keep = [](void*, void*) {};
    checked("zmq_msg_init_data", [&] {
      return zmq_msg_init_data(&message_, values.data(), values.size_bytes(), keep, nullptr);
    });
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message() { zmq_msg_close(&message_); }

  void receive(const Socket& from, const char* what) {
    checked(what, [&] { return zmq_msg_recv(&message_, from.get(), 0); });
  }
  void send(const Socket& to, const char* what, int flags = 0) {
    checked(what, [&] { return zmq_msg_send(&message_, to.get(), flags); });
  }
  std::span<std::byte> bytes() {
    return {static_cast<std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
  }

 private:
  zmq_msg_t message_;
};

// ---- Server and worker ----

float gradient_at(std::size_t i) { return 1e-3F * static_cast<float>(i % kPeriod + 1); }

/// Applies the gradients in the message, and leaves the new weights in their place. What is in a
/// message may lie at any address, hence memcpy; it vectorises all the same.
void step(std::span<float> weights, std::span<std::byte> message) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    std::byte* const at = message.data() + i * sizeof(float);
    float gradient = 0;
    std::memcpy(&gradient, at, sizeof gradient);
    const float weight = weights[i] - kLearningRate * gradient;
    weights[i] = weight;
    std::memcpy(at, &weight, sizeof weight);
  }
}

/// Where server `k` of `servers` has its first element; that of server `servers` is the end.
std::size_t shard_begin(std::size_t elements, int k, int servers) {
  return elements * static_cast<std::size_t>(k) / static_cast<std::size_t>(servers);
}

/// Never returns: our parent ends it when the workers are done.
void serve(Board::Server& own, std::size_t elements) {
  std::vector<float> weights(elements, kFirstWeight);
  const Context context = make_context();
  const Socket router = make_socket(context, ZMQ_ROUTER);
  checked("zmq_bind", [&] { return zmq_bind(router.get(), "tcp://127.0.0.1:*"); });
  std::size_t length = own.endpoint.size();
  checked("zmq_getsockopt", [&] {
    return zmq_getsockopt(router.get(), ZMQ_LAST_ENDPOINT, own.endpoint.data(), &length);
  });
  own.is_bound = true;

  for (;;) {
    Message worker;  // the name by which the router knows it
    Message message;
    worker.receive(router, "waiting for gradients");
    message.receive(router, "waiting for gradients");
    if (message.bytes().size() != elements * sizeof(float)) {
      throw std::runtime_error(fmt::format("got {} bytes of gradients for a shard of {}",
                                           message.bytes().size(), elements * sizeof(float)));
    }
    step(weights, message.bytes());
    worker.send(router, "sending weights", ZMQ_SNDMORE);
    message.send(router, "sending weights");
  }
}

class Worker {
 public:
  Worker(Board& board, int rank, const Options& options, std::size_t elements)
      : board_(board),
        own_(board.workers[static_cast<std::size_t>(rank)]),
        options_(options),
        gradients_(elements),
        weights_(elements, kFirstWeight),
        context_(make_context()) {
    // All workers have the same gradients, so the weights tell how many of them were applied.
    for (std::size_t i = 0; i < elements; ++i) gradients_[i] = gradient_at(i);
    for (int k = 0; k < options.servers; ++k) {
      const Board::Server& server = board.servers[static_cast<std::size_t>(k)];
      wait_until([&] { return server.is_bound.load(); }, fmt::format("server {}", k));
      servers_.push_back(make_socket(context_, ZMQ_DEALER));
      checked("zmq_connect",
              [&] { return zmq_connect(servers_.back().get(), server.endpoint.data()); });
    }
  }

  void run() {
    check();
    barrier();
    rounds_within(kWarmUp);
    barrier();
    own_.begin = Clock::now();
    own_.rounds = rounds_within(std::chrono::duration<double>(options_.seconds));
    own_.end = Clock::now();
  }

 private:
  void round() {
    for (int k = 0; k < options_.servers; ++k) {
      Message(shard(gradients_, k)).send(socket_of(k), "sending gradients");
    }
    for (int k = 0; k < options_.servers; ++k) {
      const std::span<float> target = shard(weights_, k);
      const int received = checked("waiting for weights", [&] {
        return zmq_recv(socket_of(k).get(), target.data(), target.size_bytes(), 0);
      });
      if (static_cast<std::size_t>(received) != target.size_bytes()) {
        throw std::runtime_error(fmt::format("got {} bytes of weights for a shard of {}", received,
                                             target.size_bytes()));
      }
    }
  }

  std::int64_t rounds_within(std::chrono::duration<double> time) {
    const auto begin = Clock::now();
    std::int64_t rounds = 0;
    while (Clock::now() - begin < time) {
      round();
      ++rounds;
    }
    return rounds;
  }

  /// After its second round, a worker must see the first of all workers and its own second, and may
  /// see the second of the others. Every shard is exactly what some such number of steps makes.
  void check() {
    round();
    barrier();
    round();
    std::array<float, kPeriod> expected;
    expected.fill(kFirstWeight);
    int right = 0;  // shards; no two numbers of steps make the same one
    for (int steps = 1; steps <= 2 * options_.workers; ++steps) {
      for (std::size_t i = 0; i < kPeriod; ++i) expected[i] -= kLearningRate * gradient_at(i);
      if (steps <= options_.workers) continue;
      for (int k = 0; k < options_.servers; ++k) {
        const std::size_t end = shard_begin(weights_.size(), k + 1, options_.servers);
        std::size_t i = shard_begin(weights_.size(), k, options_.servers);
        while (i < end && weights_[i] == expected[i % kPeriod]) ++i;
        if (i == end) ++right;
      }
    }
    if (right == options_.servers) return;
    throw std::runtime_error(fmt::format(
        "after two rounds, {} of {} shards are not what {} to {} steps make of them",
        options_.servers - right, options_.servers, options_.workers + 1, 2 * options_.workers));
  }

  void barrier() {
    ++board_.arrivals;
    ++barriers_;
    wait_until([&] { return board_.arrivals >= barriers_ * options_.workers; }, "other workers");
  }

  std::span<float> shard(std::span<float> vector, int k) const {
    const std::size_t begin = shard_begin(vector.size(), k, options_.servers);
    return vector.subspan(begin, shard_begin(vector.size(), k + 1, options_.servers) - begin);
  }
  const Socket& socket_of(int k) const { return servers_[static_cast<std::size_t>(k)]; }

  Board& board_;
  Board::Worker& own_;
  const Options& options_;
  std::vector<float> gradients_;
  std::vector<float> weights_;
  Context context_;  // after the gradients it is lent, and before its sockets
  std::vector<Socket> servers_;
  int barriers_ = 0;
};

// ---- The parent ----

/// The forked processes. None outlives this object, nor this process however it ends.
class Family {
 public:
  explicit Family(Board& board) : board_(board) {}
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;
  ~Family() {
    for (const Member& member : members_) ::kill(member.pid, SIGKILL);
    for (const Member& member : members_) ::waitpid(member.pid, nullptr, 0);
  }

  template <typename Body>
  void start(const std::string& name, Body body) {
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) throw system_failure("fork");
    if (pid > 0) {
      members_.push_back({pid, name});
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // it died before we asked to be told
    try {
      body();
    } catch (const std::exception& error) {
      tell_failure(fmt::format("{}: {}", name, error.what()));
      ::_exit(1);
    }
    ::_exit(0);
  }

  /// Returns when so many members have ended well; throws as soon as one has not.
  void wait_for(int endings, std::chrono::duration<double> time) {
    const auto deadline = Clock::now() + time;
    while (endings > 0) {
      int status = 0;
      const auto ended = std::ranges::find_if(members_, [&](const Member& member) {
        return ::waitpid(member.pid, &status, WNOHANG) == member.pid;
      });
      if (ended == members_.end()) {
        if (Clock::now() > deadline) throw std::runtime_error("the run takes too long");
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      const std::string name = ended->name;
      members_.erase(ended);
      if (WIFSIGNALED(status)) {
        throw std::runtime_error(fmt::format("{} was killed by signal {}", name, WTERMSIG(status)));
      }
      if (WEXITSTATUS(status) != 0) throw std::runtime_error(board_.failure.data());
      --endings;
    }
  }

 private:
  struct Member {
    pid_t pid;
    std::string name;
  };

  /// The first failure is the cause of the others.
  void tell_failure(const std::string& text) {
    if (board_.has_failed.exchange(true)) return;
    text.copy(board_.failure.data(), board_.failure.size() - 1);
  }

  Board& board_;
  std::vector<Member> members_;
};

void measure(const Options& options, std::int64_t bytes) {
  const SharedBoard board = map_board();
  const std::size_t elements = static_cast<std::size_t>(bytes) / sizeof(float);
  Family family(*board);
  for (int k = 0; k < options.servers; ++k) {
    family.start(fmt::format("server {}", k), [&] {
      serve(board->servers[static_cast<std::size_t>(k)],
            shard_begin(elements, k + 1, options.servers) -
                shard_begin(elements, k, options.servers));
    });
  }
  for (int rank = 0; rank < options.workers; ++rank) {
    family.start(fmt::format("worker {}", rank),
                 [&] { Worker(*board, rank, options, elements).run(); });
  }
  // Every wait inside has its own limit. This one is for what else may hang.
  family.wait_for(options.workers, std::chrono::duration<double>(options.seconds) + 5 * kPatience);

  const std::span workers(board->workers.data(), static_cast<std::size_t>(options.workers));
  std::int64_t rounds = 0;
  for (const Board::Worker& worker : workers) rounds += worker.rounds;
  const std::chrono::duration<double> time =
      std::ranges::max(workers, {}, &Board::Worker::end).end -
      std::ranges::min(workers, {}, &Board::Worker::begin).begin;

  nlohmann::ordered_json line;
  line["event"] = "bench";
  line["peer"] = "zeromq";
  line["algorithm"] = "push-pull";
  line["workers"] = options.workers;
  line["servers"] = options.servers;
  line["bytes"] = bytes;
  line["iterations"] = rounds;
  line["seconds"] = time.count();
  line["bytes_per_second"] = 2.0 * static_cast<double>(bytes * rounds) / time.count();
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);  // also so that no child inherits it
}

void check_options(const Options& options) {
  for (const std::int64_t bytes : options.sizes_bytes) {
    if (bytes <= kMaxBytes && bytes % 4 == 0 && bytes / 4 >= options.servers) continue;
    throw CLI::ValidationError(
        "--bytes",
        fmt::format("{} is not a multiple of 4 from 4 a server to {}", bytes, kMaxBytes));
  }
  if (!(options.seconds > 0 && options.seconds <= 3600)) {
    throw CLI::ValidationError("--seconds",
                               fmt::format("{} is not above 0 and at most 3600", options.seconds));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Times push and pull of a plain parameter server on ZeroMQ, over TCP on 127.0.0.1."};
  app.footer(
      "Example:\n"
      "  starling-peer-zmq --workers 4 --servers 2 --bytes 1000000,16000000 --seconds 2");
  app.add_option("--workers", options.workers, "Processes that push and pull")
      ->capture_default_str()
      ->check(CLI::Range(1, kMaxMembers));
  app.add_option("--servers", options.servers, "Processes that each hold a shard of the weights")
      ->capture_default_str()
      ->check(CLI::Range(1, kMaxMembers));
  app.add_option("--bytes", options.sizes_bytes, "Sizes of the gradients, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "Time to spend on each size")->capture_default_str();
  app.callback([&options] { check_options(options); });
  try {
    app.parse(argc, argv);
    for (const std::int64_t bytes : options.sizes_bytes) measure(options, bytes);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const std::exception& error) {
    fmt::print(stderr, "starling-peer-zmq: {}\n", error.what());
    return 1;
  }
  return 0;
}
