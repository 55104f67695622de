// How messages of a Comm go over MPI:
//
//   A. Each begins with an envelope: channel and size, and as many of its first bytes as MPI sends at
//      once, without asking the receiver. A short message ends there.
//   B. Everybody has receives for envelopes of anybody posted at all times, in a ring, so they come in the
//      order sent, and it is here that a message finds its receive.
//   C. The rest follows at once, in pieces, under a tag that both sides count. The receiver asks MPI for
//      it when there is a place, and it lands there. A short rest is copied first, while there is room for
//      it; else the sender waits.
//   D. MPI cannot take back what it has begun. A withdrawn receive waits for its bytes; for a withdrawn
//      send the receiver is told to let them in, wherever to.
//   E. Who is done says goodbye, and lets in what nobody will ask for, until all others have said so.
//      Who fails says on whose account; mpirun ends the rest.
#include "net/mpi_comm.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"

namespace starling {

namespace {

struct Envelope {
  enum class Kind : std::uint8_t { message, withdrawn, goodbye, failure };

  std::uint64_t bytes = 0;  // of the message; of one withdrawn, its number; at a failure, whose
  std::uint32_t channel = 0;
  Kind kind = Kind::message;
  Purpose purpose = Purpose::control;
  std::uint16_t unused = 0;
};
static_assert(sizeof(Envelope) == 16);

// Together less than 4 KB, which Open MPI still sends at once through shared memory. Longer than any
// head, so that the rest is in one piece of memory at both ends.
constexpr std::size_t kOpeningBytes = 3968;
static_assert(kOpeningBytes > kMaxHeadBytes);
constexpr std::size_t kEnvelopeBytes = sizeof(Envelope) + kOpeningBytes;
constexpr std::size_t kEnvelopesPosted = 32;
constexpr std::size_t kPieceBytes =
    16 << 20;  // MPI counts in int, and who waits wants to see progress

// As a socket has them: copies of what has been sent and not been taken yet, so that a sender goes on
// without waiting for its peer to be given a processor. Exchanges send segments that fit in one.
constexpr std::size_t kBlockBytes = 256 << 10;
constexpr int kBlocksOfAPeer = 16;

constexpr int kEnvelopeTag = 0, kFirstRestTag = 1;

constexpr Time kToTell = std::chrono::milliseconds(300);
// The first to end in trouble has mpirun end all others, who would rather hear the culprit.
constexpr auto kForItsLastWords = std::chrono::milliseconds(600);
constexpr auto kNap = std::chrono::microseconds(200);

void check(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  throw Error(fmt::format("{}: {}", call, text.data()));
}

// Ends the process unless it is over in time.
class Deadline {
 public:
  Deadline(std::chrono::seconds timeout, const char* what)
      : watch_([this, timeout, what](std::stop_token over) {
          std::unique_lock lock(mutex_);
          changed_.wait_for(lock, over, timeout, [] { return false; });
          if (over.stop_requested()) return;
          fmt::print(stderr,
                     "error: waited {} s in {} for the other processes of mpirun; see that all "
                     "of them join the job\n",
                     timeout.count(), what);
          ::_exit(1);
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread watch_;
};

// MPI itself, and a communicator of our own.
class World {
 public:
  explicit World(std::chrono::seconds patience) : timeout(patience) {
    const Deadline deadline(timeout, "MPI_Init");
    int started = 0, ended = 0, threads = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (ended) throw Error("MPI has ended in this process", "it can be joined only once");
    if (!started) {
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads), "MPI_Init_thread");
      ours_ = true;
    }
    MPI_Query_thread(&threads);
    if (threads < MPI_THREAD_SERIALIZED) {
      throw Error("this MPI was started for one thread alone", "ask for MPI_THREAD_SERIALIZED");
    }
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm neighbours = MPI_COMM_NULL;
    int here = 0;
    check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &neighbours),
          "MPI_Comm_split_type");
    MPI_Comm_size(neighbours, &here);
    MPI_Comm_free(&neighbours);
    on_one_host = here == size;
    void* most = nullptr;
    int found = 0;
    MPI_Comm_get_attr(comm, MPI_TAG_UB, &most, &found);
    if (found) rest_tags = *static_cast<int*>(most) - kFirstRestTag;
  }

  // When all others do, too.
  void end() {
    const Deadline deadline(timeout, "MPI_Finalize");
    MPI_Comm_free(&comm);
    if (ours_) MPI_Finalize();
  }

  std::chrono::seconds timeout;
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;
  bool on_one_host = false;
  int rest_tags = 32767 - kFirstRestTag;  // as many as any MPI has

 private:
  bool ours_ = false;
};

class MpiComm : public ProcessComm, private TcpLoop::Source {
 public:
  MpiComm(TcpLoop& loop, const World& world)
      : ProcessComm(loop, world.rank, world.size),
        own_loop_(loop),
        world_(world),
        peers_(static_cast<std::size_t>(world.size)) {
    if (world.on_one_host) note_carrier(Carrier::shared_memory);
    for (std::size_t i = 0; i < kEnvelopesPosted; ++i) {
      posted_[i].buffer = spare_buffer();
      await_envelope(posted_[i]);
    }
    own_loop_.look_at(this);
  }

  ~MpiComm() override {
    own_loop_.look_at(nullptr);
    if (over_ != nullptr) {
      std::this_thread::sleep_for(kForItsLastWords);
      return;
    }
    try {
      has_failed() ? tell_failure() : part();
    } catch (const std::exception& error) {  // mpirun ends all
      spdlog::error("leaving MPI: {}", error.what());
    }
  }

  std::vector<int> awaited(std::uint32_t channel) override {
    std::vector<int> ranks;
    for (int other = 0; other < size(); ++other) {
      if (find_posted(peer(other), channel) != nullptr) ranks.push_back(other);
    }
    return ranks;
  }
  std::vector<int> descriptors() override { return {}; }

 private:
  using Buffer = std::unique_ptr<std::array<std::byte, kEnvelopeBytes>>;
  struct Mail {
    Buffer buffer;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  // A message that nobody has asked for yet.
  struct Arrived {
    Envelope envelope;
    Buffer buffer;
    std::uint64_t number;  // among those with a rest
    ConstBytes opening() const {
      return ConstBytes(*buffer).subspan(sizeof(Envelope), opening_of(envelope.bytes));
    }
    std::uint64_t rest_bytes() const { return envelope.bytes - opening_of(envelope.bytes); }
  };
  struct Peer {
    List<Receive> posted, declined;
    std::vector<Arrived> arrived;
    std::uint64_t sent = 0, received = 0;  // messages with a rest
    int blocks = 0;                        // copies of such, on their way
  };
  // The rest of a message, on its way. Without an operation it is nobody's any more.
  struct Rest {
    Send* send;
    Receive* receive;
    bool sends;
    int peer;
    std::uint64_t number;
    Purpose purpose;
    std::byte* place;
    std::uint64_t left_bytes;
    std::unique_ptr<std::byte[]> memory = nullptr;  // a copy, or where it lands if nobody wants it

    std::size_t piece() const { return std::min<std::uint64_t>(left_bytes, kPieceBytes); }
  };

  static std::size_t opening_of(std::uint64_t message_bytes) {
    return std::min<std::uint64_t>(message_bytes, kOpeningBytes);
  }
  Peer& peer(int rank) {
    STARLING_CHECK(rank >= 0 && rank < size(), "there is no rank {}", rank);
    return peers_[static_cast<std::size_t>(rank)];
  }
  static Receive* find_posted(Peer& from, std::uint32_t channel) {
    return from.posted.find([&](const Receive& each) { return each.channel().id == channel; });
  }
  std::exception_ptr cause(const Operation& operation) const {
    const std::exception_ptr lost = lost_cause(operation);
    return lost ? lost : over_;
  }

  void post(Send& send) override {
    if (auto lost = cause(send)) return finish(send, lost);
    const std::size_t opening = opening_of(send.size_bytes()),
                      of_bytes = opening - send.head.size();
    mail(send.peer(),
         {.bytes = send.size_bytes(),
          .channel = send.channel().id,
          .purpose = send.channel().purpose},
         send.head, send.bytes.first(of_bytes));
    const ConstBytes rest = send.bytes.subspan(of_bytes);
    if (rest.empty()) return finish(send);
    Peer& to = peer(send.peer());
    Rest moving{&send,
                nullptr,
                true,
                send.peer(),
                ++to.sent,
                send.channel().purpose,
                const_cast<std::byte*>(rest.data()),
                rest.size()};
    const bool copied = rest.size() <= kBlockBytes && to.blocks < kBlocksOfAPeer;
    if (copied) {
      ++to.blocks;
      moving.send = nullptr;
      moving.memory = spare_block();
      moving.place = moving.memory.get();
      std::memcpy(moving.place, rest.data(), rest.size());
    }
    move(std::move(moving));
    if (copied) finish(send);
  }

  void post(Receive& receive) override {
    Peer& from = peer(receive.peer());
    const auto arrived = std::ranges::find_if(from.arrived, [&](const Arrived& each) {
      return each.envelope.channel == receive.channel().id;
    });
    const bool is_here = arrived != from.arrived.end() && !over_;
    if (!is_here) {
      if (auto lost = cause(receive)) return finish(receive, lost);
      return from.posted.push_back(receive);
    }
    if (!claim(receive, arrived->envelope)) return;
    Arrived message = std::move(*arrived);
    from.arrived.erase(arrived);
    land(receive, message);
    spare_.push_back(std::move(message.buffer));
  }

  void withdraw(Send& send) override { settle(&Rest::send, send); }
  void withdraw(Receive& receive) override {
    receive.claimed ? settle(&Rest::receive, receive) : receive.unlink();
  }

  void each_unfinished(const std::function<void(const Operation&, bool sends)>& look_at) override {
    const auto pass = [&](const Receive& each) {
      look_at(each, false);
      return false;
    };
    for (Peer& each : peers_) {
      each.posted.find(pass);
      each.declined.find(pass);
    }
    for (const Rest& rest : rests_) {
      if (rest.receive != nullptr) look_at(*rest.receive, false);
    }
    for (const Rest& rest : rests_) {
      if (rest.send != nullptr) look_at(*rest.send, true);
    }
  }

  // Whether the receive has a place for that message.
  bool claim(Receive& receive, const Envelope& envelope) {
    Peer& from = peer(receive.peer());
    from.posted.push_back(receive);
    try {
      receive.claimed = receive.begin(envelope.bytes);
    } catch (const Error& error) {
      lose(receive.peer(), error.what());
      return false;
    }
    if (receive.claimed) {
      receive.unlink();
    } else {
      from.declined.push_back(receive);
    }
    return receive.claimed;
  }

  void land(Receive& receive, const Arrived& message) {
    receive.take(message.opening());
    if (receive.left_bytes() == 0) return finish(receive);
    const Bytes place = receive.next(receive.left_bytes())[1];
    move({nullptr, &receive, false, receive.peer(), message.number, message.envelope.purpose,
          place.data(), place.size()});
  }

  // Lets the rest of a message in that nobody wants.
  void let_in(int from, const Arrived& message) {
    if (message.rest_bytes() == 0) return;
    Rest rest{nullptr,        nullptr,
              false,          from,
              message.number, message.envelope.purpose,
              nullptr,        message.rest_bytes()};
    rest.memory = std::make_unique<std::byte[]>(rest.piece());
    rest.place = rest.memory.get();
    move(std::move(rest));
  }

  void move(Rest rest) {
    rests_.push_back(std::move(rest));
    requests_.push_back(MPI_REQUEST_NULL);
    move_piece(rests_.size() - 1);
  }
  void move_piece(std::size_t i) {
    const Rest& rest = rests_[i];
    const int tag = kFirstRestTag +
                    static_cast<int>(rest.number % static_cast<std::uint64_t>(world_.rest_tags));
    const auto bytes = static_cast<int>(rest.piece());
    if (rest.sends) {
      // Now, as who sent a copy of it goes on.
      books().add(rest.peer, Direction::sent, rest.purpose, {rest.piece(), rest.piece()});
      check(MPI_Isend(rest.place, bytes, MPI_BYTE, rest.peer, tag, world_.comm, &requests_[i]),
            "MPI_Isend");
    } else {
      check(MPI_Irecv(rest.place, bytes, MPI_BYTE, rest.peer, tag, world_.comm, &requests_[i]),
            "MPI_Irecv");
    }
  }
  void moved_piece(std::size_t i) {
    Rest& rest = rests_[i];
    const std::size_t bytes = rest.piece();
    if (!rest.sends) books().add(rest.peer, Direction::received, rest.purpose, {bytes, bytes});
    rest.left_bytes -= bytes;
    if (!rest.memory) rest.place += bytes;
    if (rest.receive != nullptr) rest.receive->landed(bytes);
    if (rest.left_bytes > 0) return move_piece(i);
    if (rest.send != nullptr) finish(*rest.send);
    if (rest.receive != nullptr) finish(*rest.receive);
    if (rest.sends && rest.memory) {
      --peer(rest.peer).blocks;
      blocks_.push_back(std::move(rest.memory));
    }
    std::swap(rests_[i], rests_.back());
    std::swap(requests_[i], requests_.back());
    rests_.pop_back();
    requests_.pop_back();
  }

  Buffer spare_buffer() {
    if (spare_.empty()) return std::make_unique<Buffer::element_type>();
    Buffer buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
  }

  std::unique_ptr<std::byte[]> spare_block() {
    if (blocks_.empty()) return std::make_unique<std::byte[]>(kBlockBytes);
    auto block = std::move(blocks_.back());
    blocks_.pop_back();
    return block;
  }

  void mail(int to, const Envelope& envelope, ConstBytes head = {}, ConstBytes bytes = {}) {
    Mail mail{spare_buffer()};
    std::byte* at = mail.buffer->data();
    for (const ConstBytes part : {std::as_bytes(std::span(&envelope, 1)), head, bytes}) {
      if (!part.empty()) std::memcpy(at, part.data(), part.size());
      at += part.size();
    }
    const auto length = static_cast<std::size_t>(at - mail.buffer->data());
    check(MPI_Isend(mail.buffer->data(), static_cast<int>(length), MPI_BYTE, to, kEnvelopeTag,
                    world_.comm, &mail.request),
          "MPI_Isend");
    books().add(to, Direction::sent, envelope.purpose, {head.size() + bytes.size(), length});
    mailed_.push_back(std::move(mail));
    if (mailed_.size() > kEnvelopesPosted) forget_mailed();
  }
  // What MPI has taken is ours again.
  void forget_mailed() {
    for (std::size_t i = mailed_.size(); i-- > 0;) {
      int taken = 0;
      check(MPI_Test(&mailed_[i].request, &taken, MPI_STATUS_IGNORE), "MPI_Test");
      if (!taken) continue;
      spare_.push_back(std::move(mailed_[i].buffer));
      std::swap(mailed_[i], mailed_.back());
      mailed_.pop_back();
    }
  }

  void await_envelope(Mail& place) {
    check(MPI_Irecv(place.buffer->data(), static_cast<int>(kEnvelopeBytes), MPI_BYTE,
                    MPI_ANY_SOURCE, kEnvelopeTag, world_.comm, &place.request),
          "MPI_Irecv");
  }

  bool look() override {
    if (over_) return false;
    bool something = false;
    while (!over_ && take_envelope()) something = true;
    if (over_) return true;
    if (!mailed_.empty()) forget_mailed();
    return move_rests() || something;
  }

  bool move_rests() {
    if (requests_.empty()) return false;
    int count = 0;
    done_.resize(requests_.size());
    check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(),
                       MPI_STATUSES_IGNORE),
          "MPI_Testsome");
    if (count <= 0) return false;
    const auto done = std::span(done_).first(static_cast<std::size_t>(count));
    std::ranges::sort(done,
                      std::greater());  // the last ones may change places with any before them
    for (const int i : done) moved_piece(static_cast<std::size_t>(i));
    return true;
  }

  bool take_envelope() {
    Mail& place = posted_[next_];
    int come = 0, length = 0;
    MPI_Status status;
    check(MPI_Test(&place.request, &come, &status), "MPI_Test");
    if (!come) return false;
    MPI_Get_count(&status, MPI_BYTE, &length);
    next_ = (next_ + 1) % kEnvelopesPosted;
    Arrived arrived{{}, std::exchange(place.buffer, spare_buffer()), 0};
    await_envelope(place);
    std::memcpy(&arrived.envelope, arrived.buffer->data(), sizeof(Envelope));
    const auto wire = static_cast<std::uint64_t>(length);
    if (!makes_sense(arrived.envelope, wire)) {
      lose(status.MPI_SOURCE, "its envelope makes no sense; see that all run the same starling");
      return false;
    }
    books().add(status.MPI_SOURCE, Direction::received, arrived.envelope.purpose,
                {wire - sizeof(Envelope), wire});
    take(status.MPI_SOURCE, arrived);
    if (arrived.buffer) spare_.push_back(std::move(arrived.buffer));
    return true;
  }

  bool makes_sense(const Envelope& envelope, std::uint64_t wire_bytes) const {
    if (wire_bytes < sizeof(Envelope)) return false;
    if (static_cast<std::size_t>(envelope.purpose) >= kPurposeNames.size()) return false;
    const std::uint64_t opening = wire_bytes - sizeof(Envelope);
    switch (envelope.kind) {
      case Envelope::Kind::message:
        return opening == opening_of(envelope.bytes);
      case Envelope::Kind::failure:
        return opening == 0 && envelope.bytes < static_cast<std::uint64_t>(size());
      case Envelope::Kind::withdrawn:
      case Envelope::Kind::goodbye:
        return opening == 0;
    }
    return false;
  }

  void take(int from, Arrived& arrived) {
    const Envelope& envelope = arrived.envelope;
    switch (envelope.kind) {
      case Envelope::Kind::message:
        if (arrived.rest_bytes() > 0) arrived.number = ++peer(from).received;
        return take_message(from, arrived);
      case Envelope::Kind::withdrawn:
        return forget(from, envelope.bytes);
      case Envelope::Kind::goodbye:
        note_left(from);
        return fail(peer(from));
      case Envelope::Kind::failure:
        const int whose = static_cast<int>(envelope.bytes);
        return lose(whose, whose == from ? "it failed" : fmt::format("rank {} reported it", from));
    }
  }

  void take_message(int from, Arrived& arrived) {
    if (parting_) return let_in(from, arrived);
    Receive* receive = find_posted(peer(from), arrived.envelope.channel);
    if (receive != nullptr && claim(*receive, arrived.envelope)) return land(*receive, arrived);
    if (!over_) peer(from).arrived.push_back(std::move(arrived));
  }

  void forget(int from, std::uint64_t number) {
    auto& waiting = peer(from).arrived;
    const auto found = std::ranges::find_if(waiting, [&](const Arrived& each) {
      return each.rest_bytes() > 0 && each.number == number;
    });
    if (found == waiting.end()) return;  // somebody has asked for it
    let_in(from, *found);
    waiting.erase(found);
  }

  // Waits until MPI has done with the memory of an operation that is withdrawn.
  template <class AnyOperation>
  void settle(AnyOperation* Rest::*of, AnyOperation& operation) {
    const auto find = [&](const auto& wanted) { return std::ranges::find_if(rests_, wanted); };
    const auto found = find([&](const Rest& each) { return each.*of == &operation; });
    if (over_ || found == rests_.end()) return;
    (*found).*of = nullptr;
    const auto [number, other, sends] = std::tuple(found->number, found->peer, found->sends);
    const Time until = loop().now() + world_.timeout;
    try {
      if (sends) mail(other, {.bytes = number, .kind = Envelope::Kind::withdrawn});
      while (!over_ && find([&](const Rest& each) {
                         return each.number == number && each.peer == other && each.sends == sends;
                       }) != rests_.end()) {
        if (loop().now() > until) return lose(other, "what was under way with it does not end");
        if (!look()) ::sched_yield();
      }
    } catch (const std::exception& error) {
      lose(other, error.what());
    }
  }

  void fail(Peer& with) {
    for (List<Receive>* list : {&with.posted, &with.declined}) {
      while (Receive* receive = list->front()) finish(*receive, cause(*receive));
    }
  }

  // From now on MPI is not called any more, so that it touches nobody's memory: mpirun will end us all.
  void lose(int whom, const std::string& why) {
    if (over_) return;
    over_ = std::make_exception_ptr(PeerLost(whom, fmt::format("rank {} was lost ({})", whom, why),
                                             "over MPI nobody can go on without it"));
    note_loss(whom, Presence::dead, why);
    for (Peer& each : peers_) fail(each);
    for (const Rest& rest : std::exchange(rests_, {})) {
      if (rest.send != nullptr) finish(*rest.send, cause(*rest.send));
      if (rest.receive != nullptr) finish(*rest.receive, cause(*rest.receive));
    }
  }

  void part() {
    parting_ = true;
    for (int other = 0; other < size(); ++other) {
      if (other == rank()) continue;
      for (const Arrived& each : peer(other).arrived) let_in(other, each);
      mail(other, {.kind = Envelope::Kind::goodbye});
    }
    while (!over_ && (gone_count() < size() - 1 || !rests_.empty() || !mailed_.empty())) {
      if (!look()) std::this_thread::sleep_for(kNap);
    }
    if (over_) return;
    for (Mail& each : posted_) {
      MPI_Cancel(&each.request);
      MPI_Wait(&each.request, MPI_STATUS_IGNORE);
    }
    world_.end();
  }

  void tell_failure() {
    parting_ = true;
    const auto whose = static_cast<std::uint64_t>(blamed().value_or(rank()));
    for (int other = 0; other < size(); ++other) {
      if (other != rank()) mail(other, {.bytes = whose, .kind = Envelope::Kind::failure});
    }
    const Time until = loop().now() + kToTell;
    while (!over_ && !mailed_.empty() && loop().now() < until) {
      if (!look()) std::this_thread::sleep_for(kNap);
    }
  }

  TcpLoop& own_loop_;
  World world_;
  std::vector<Peer> peers_;
  std::array<Mail, kEnvelopesPosted> posted_;  // in the order in which they will be filled
  std::size_t next_ = 0;
  std::vector<Mail> mailed_;
  std::vector<Buffer> spare_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;  // spare ones
  std::vector<Rest> rests_;
  std::vector<MPI_Request> requests_;  // one each
  std::vector<int> done_;              // of them
  bool parting_ = false;
  std::exception_ptr over_;  // why nothing goes on any more
};

}  // namespace

void check_has_mpi() {}

std::unique_ptr<ProcessComm> join_mpi(TcpLoop& loop, std::chrono::seconds timeout) {
  return std::make_unique<MpiComm>(loop, World(timeout));
}

}  // namespace starling
