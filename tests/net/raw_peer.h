// A real rank 0 and, in the places of the others, bare sockets that have proved themselves: for what
// a rank would never write, or not in such pieces. All talk is with rank 1.
#pragma once

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "job/handshake.h"
#include "job/join.h"
#include "runtime/frame.h"
#include "tests/net/borrowed_link.h"
#include "tests/net/patience.h"

namespace starling {

class RawPeer {
 public:
  explicit RawPeer(int size = 2) {
    asio::ip::tcp::acceptor listener = listen_on_loopback(loop_);
    const asio::ip::tcp::endpoint where = listener.local_endpoint();
    Job job;
    job.size = size;
    job.rendezvous = "127.0.0.1:" + std::to_string(where.port());
    job.secret = "a secret of few";
    job.timeout = std::chrono::seconds(20);
    Running joining(come(host_, job, host_.adopt(::dup(listener.native_handle())), member_));
    listener.close();
    for (job.rank = 1; job.rank < size; ++job.rank) {
      sockets_.emplace_back(loop_.io());
      sockets_.back().connect(where);
      BorrowedLink link(sockets_.back());
      loop_.run(introduce(host_, link, job, 0, 1));
    }
    loop_.drive(joining);
    std::vector<std::byte> roster(member_->comm().ledger().total_with(1, Direction::sent).wire -
                                  kListenerHandshakeBytes);
    asio::read(socket(), asio::buffer(roster));
    socket().non_blocking(true);
  }

  TcpLoop& loop() { return loop_; }
  Mesh& comm() { return member_->comm(); }
  TcpLink& link() { return dynamic_cast<TcpLink&>(comm().link(1)); }
  asio::ip::tcp::socket& socket() { return sockets_.front(); }
  asio::ip::tcp::socket& last_socket() { return sockets_.back(); }  // that of the highest rank
  void leave() { member_.reset(); }

  static FrameHeader header(std::uint32_t channel, std::uint64_t remaining_bytes,
                            FrameHeader::Kind kind = FrameHeader::Kind::message) {
    FrameHeader frame;
    frame.kind = kind;
    frame.channel = channel;
    frame.remaining_bytes = remaining_bytes;
    return frame;
  }

  // A header with so many bytes behind it, in front of what else a test has to say.
  static void put(std::vector<std::byte>& text, const FrameHeader& frame, std::size_t bytes = 0,
                  std::byte value = {}) {
    const auto of_header = std::as_bytes(std::span(&frame, 1));
    text.insert(text.end(), of_header.begin(), of_header.end());
    text.insert(text.end(), bytes, value);
  }

  // Goes out as the other side takes it, while the test waits for something.
  void say(const std::vector<std::byte>& text) {
    unsaid_.insert(unsaid_.end(), text.begin(), text.end());
    talk();
  }
  void say(const FrameHeader& frame) {
    std::vector<std::byte> text;
    put(text, frame);
    say(text);
  }
  std::size_t unsaid_bytes() const { return unsaid_.size() - said_bytes_; }

  template <class Predicate>
  void until(const Predicate& so) {
    poll_until(loop_, [&] {
      talk();
      return so();
    });
  }
  void until_done(const Operation& operation) {
    until([&] { return operation.done(); });
  }
  // The next bytes that the other side says; fewer if it hangs up before.
  std::vector<std::byte> hear(std::size_t bytes) {
    std::vector<std::byte> heard(bytes);
    std::size_t got = 0;
    until([&] {
      asio::error_code error;
      got += socket().read_some(asio::buffer(heard.data() + got, bytes - got), error);
      return got == bytes || (error && error != asio::error::would_block);
    });
    heard.resize(got);
    return heard;
  }
  FrameHeader hear_header() {
    FrameHeader frame;
    const std::vector<std::byte> heard = hear(sizeof frame);
    std::ranges::copy(heard, object_bytes(frame).begin());
    return frame;
  }

  // Until nothing moves any more.
  void until_stuck() {
    std::uint64_t moved = ~std::uint64_t{0};
    int still = 0;
    until([&] {
      const auto now = comm().ledger().total_with(1, Direction::received).wire;
      still = now == std::exchange(moved, now) ? still + 1 : 0;
      return still == 1000;
    });
  }

 private:
  void talk() {
    if (unsaid_bytes() == 0) return;
    asio::error_code error;
    said_bytes_ +=
        socket().write_some(asio::buffer(unsaid_.data() + said_bytes_, unsaid_bytes()), error);
  }

  static Task<> come(Host& host, Job job, std::unique_ptr<Listener> listener,
                     std::optional<Membership>& member) {
    member.emplace(co_await join_task(host, job, std::move(listener)));
  }

  TcpLoop loop_;
  TcpHost host_{loop_};
  std::list<asio::ip::tcp::socket> sockets_;
  std::optional<Membership> member_;
  std::vector<std::byte> unsaid_;
  std::size_t said_bytes_ = 0;
};

}  // namespace starling
