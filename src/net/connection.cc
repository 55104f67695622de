#include "net/connection.h"

#include <fmt/format.h>
#include <netinet/tcp.h>

#include <asio/buffer.hpp>

#include "base/error.h"
#include "net/pooled.h"
#include "net/tcp_info.h"

namespace starling {

namespace {

template <int kLevel, int kName>
using IntegerOption = asio::detail::socket_option::integer<kLevel, kName>;

// Between two processes of one machine there is no distance to fill. A short queue made exchanges
// of 4 MB and more a fifth to a third faster (docs/performance.md), probably because its bytes are
// still in the cache when they are read.
constexpr int kLoopbackSendBufferBytes = 300'000;

constexpr std::size_t kShortBytes = 1024;
constexpr std::size_t kLongBytes = 16 * 1024;

asio::mutable_buffer buffer(Bytes bytes) { return {bytes.data(), bytes.size()}; }
asio::const_buffer buffer(ConstBytes bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, Events events)
    : socket_(std::move(socket)),
      events_(std::move(events)),
      inbox_([this](Receive& receive) { events_.received(receive); },
             [this](FrameHeader::Kind kind, std::uint32_t channel) {
               outbox_.tell(kind, channel);
               has_words_ = true;
             }),
      outbox_([this](Send& send) { events_.sent(send); }) {
  socket_.non_blocking(true);
  socket_.set_option(asio::ip::tcp::no_delay(true));
  if (socket_.remote_endpoint().address().is_loopback()) {
    socket_.set_option(asio::socket_base::send_buffer_size(kLoopbackSendBufferBytes));
  }
  // A machine that vanishes sends no farewell; on an idle connection the kernel finds out for us.
  // TCP_USER_TIMEOUT would do so on a busy one, but it also fires where the peer is there and only
  // does not read.
  socket_.set_option(asio::socket_base::keep_alive(true));
  socket_.set_option(IntegerOption<IPPROTO_TCP, TCP_KEEPIDLE>(2));
  socket_.set_option(IntegerOption<IPPROTO_TCP, TCP_KEEPINTVL>(1));
  socket_.set_option(IntegerOption<IPPROTO_TCP, TCP_KEEPCNT>(3));
}

void Connection::post(Send& send) {
  outbox_.post(send);
  if (!write_armed_) write();
}

void Connection::post(Receive& receive) {
  try {
    inbox_.post(receive);
  } catch (const Error& error) {
    return fail(kPeer, error.what());
  }
  // One that was here already may have made room for others.
  if (paused_ || !receive.done()) read();
  write_words();
}

void Connection::write_words() {
  if (std::exchange(has_words_, false) && !write_armed_) write();
}

void Connection::write() {
  while (open_) {
    const std::array<ConstBytes, 3> next = outbox_.next();
    if (next[0].empty() && next[1].empty() && next[2].empty()) return;
    asio::error_code error;
    const std::array<asio::const_buffer, 3> buffers = {buffer(next[0]), buffer(next[1]),
                                                       buffer(next[2])};
    // A short frame is worth no packet, and no waking up its reader, if another one is right
    // behind it.
    const bool wait_for_next = next[1].size() + next[2].size() <= kShortBytes && outbox_.has_more();
    const std::size_t bytes = socket_.send(buffers, wait_for_next ? MSG_MORE : 0, error);
    if (error == asio::error::would_block) {
      write_armed_ = true;
      socket_.async_wait(asio::socket_base::wait_write,
                         Pooled([self = shared_from_this()](const asio::error_code& failed) {
                           self->write_armed_ = false;
                           if (!failed) self->write();
                         }));
      return;
    }
    if (error) {
      // Before it hung up, it may have told on whose account.
      inbox_.keep_everything();
      read();
      return fail(kNobody, error.message());
    }
    const Purpose purpose = outbox_.purpose();
    const std::size_t payload = outbox_.written(bytes);
    events_.moved(Direction::sent, purpose, {payload, bytes});
  }
}

void Connection::read() {
  paused_ = false;
  try {
    read_fragments();
  } catch (const Error& error) {
    return fail(kPeer, error.what());
  }
  write_words();
  if (!open_ || paused_ || read_armed_) return;
  read_armed_ = true;
  socket_.async_wait(asio::socket_base::wait_read,
                     Pooled([self = shared_from_this()](const asio::error_code& failed) {
                       self->read_armed_ = false;
                       if (!failed) self->read();
                     }));
}

// Reads a fragment straight into its place, and the header behind it in the same call.
void Connection::read_fragments() {
  while (true) {
    if (!in_fragment_ && next_got_bytes_ == sizeof(FrameHeader)) begin_fragment();
    if (!open_) return;
    Inbox::Place place;
    if (in_fragment_) {
      const std::optional<Inbox::Place> found = inbox_.place(header_, fragment_left_bytes_);
      if (!found) {
        paused_ = true;
        return;
      }
      if (fragment_left_bytes_ == 0) {
        inbox_.landed(header_, 0);
        in_fragment_ = false;
        continue;
      }
      place = *found;
    }
    asio::error_code error;
    const std::array<asio::mutable_buffer, 3> buffers = {
        buffer(place[0]), buffer(place[1]),
        buffer(object_bytes(next_header_).subspan(next_got_bytes_))};
    const std::size_t bytes = socket_.read_some(buffers, error);
    if (error == asio::error::would_block) return;
    if (error == asio::error::eof) return fail(kNobody, "it closed the connection");
    if (error) return fail(kNobody, error.message());

    const std::size_t payload = std::min(bytes, place[0].size() + place[1].size());
    next_got_bytes_ += bytes - payload;
    if (payload > 0) {
      events_.moved(Direction::received, static_cast<Purpose>(header_.purpose), {payload, payload});
      fragment_left_bytes_ -= payload;
      in_fragment_ = fragment_left_bytes_ > 0;
      inbox_.landed(header_, payload);
      // What has come in whole is used while it is still in the cache; but nothing would wake us
      // for a frame that is here to its end.
      const bool frame_is_here =
          next_got_bytes_ == sizeof(FrameHeader) && next_header_.remaining_bytes == 0;
      if (!in_fragment_ && payload >= kLongBytes && !frame_is_here) return;
    }
  }
}

// Acts on a header that has come in whole.
void Connection::begin_fragment() {
  header_ = next_header_;
  next_got_bytes_ = 0;
  if (header_.magic != FrameHeader::kMagic || header_.purpose >= kPurposeNames.size() ||
      header_.remaining_bytes > kMaxMessageBytes) {
    return fail(kPeer, fmt::format("it sent a frame that makes no sense ({} bytes on channel {})",
                                   header_.remaining_bytes, header_.channel));
  }
  events_.moved(Direction::received, static_cast<Purpose>(header_.purpose), {0, sizeof header_});
  switch (header_.kind) {
    case FrameHeader::Kind::message:
      in_fragment_ = true;
      fragment_left_bytes_ = fragment_bytes(header_.remaining_bytes);
      return;
    case FrameHeader::Kind::goodbye:
      open_ = false;
      return events_.left();
    case FrameHeader::Kind::abort:
      return fail(static_cast<int>(header_.channel), "another rank reported it");
    case FrameHeader::Kind::hold:
      return outbox_.hold(header_.channel);
    case FrameHeader::Kind::resume:
      has_words_ = true;
      return outbox_.resume(header_.channel);
  }
  fail(kPeer, "it sent a frame of an unknown kind");
}

Time Connection::unanswered_since(Time now) {
  const TcpInfo info = kernel_info();
  const std::uint64_t answered = info.acknowledged_bytes + info.received_bytes;
  if (!info.awaits_answer || answered != answered_bytes_) unanswered_since_ = now;
  answered_bytes_ = answered;
  return unanswered_since_;
}

void Connection::look_for_end() {
  if (!open_ || !paused_ || tcp_info_of(socket_.native_handle()).established) return;
  inbox_.keep_everything();
  read();
}

void Connection::fail(int culprit, const std::string& why) {
  if (!open_) return;
  open_ = false;
  if (culprit != kPeer) {  // else close() tells the peer first
    asio::error_code ignored;
    socket_.close(ignored);
  }
  events_.broken(culprit, why);
}

void Connection::close(int culprit) {
  if (socket_.is_open()) {
    if (outbox_.between_fragments()) {
      FrameHeader last;
      last.kind = culprit < 0 ? FrameHeader::Kind::goodbye : FrameHeader::Kind::abort;
      last.channel = static_cast<std::uint32_t>(std::max(culprit, 0));
      asio::error_code ignored;
      socket_.write_some(buffer(std::as_bytes(std::span(&last, 1))), ignored);
    }
    asio::error_code ignored;
    socket_.shutdown(asio::socket_base::shutdown_send, ignored);
    socket_.close(ignored);
  }
  open_ = false;
}

}  // namespace starling
