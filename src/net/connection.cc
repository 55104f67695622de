#include "net/connection.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace starling {

namespace {

constexpr std::size_t kShortBytes = 1024;
constexpr std::size_t kLongBytes = 16 * 1024;

}  // namespace

Connection::Connection(std::unique_ptr<Link> link, const FrameHeader& first,
                       std::size_t first_bytes, Events events)
    : link_(std::move(link)),
      events_(std::move(events)),
      inbox_([this](Receive& receive) { events_.received(receive); },
             [this](FrameHeader::Kind kind, std::uint32_t channel) {
               outbox_.tell(kind, channel);
               has_words_ = true;
             }),
      outbox_([this](Send& send) { events_.sent(send); }),
      next_header_(first),
      next_got_bytes_(first_bytes) {
  for (const Direction direction : {Direction::sent, Direction::received}) {
    events_.moved(direction, Purpose::control, {0, overhead(direction)});  // of the handshake
  }
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
    const Link::Parts next = outbox_.next();
    if (next[0].empty() && next[1].empty() && next[2].empty()) return;
    // A short frame is worth no packet, and no waking up its reader, if another one is right
    // behind it.
    const bool wait_for_next = next[1].size() + next[2].size() <= kShortBytes && outbox_.has_more();
    const Link::Transfer written = link_->write_some(next, wait_for_next);
    if (written.status == Link::Status::not_now) {
      write_armed_ = true;
      return link_->when_writable([this] {
        write_armed_ = false;
        write();
      });
    }
    if (written.status != Link::Status::moved) {
      // Before it hung up, it may have told on whose account.
      inbox_.keep_everything();
      read();
      return fail(kNobody, written.error.message());
    }
    const Purpose purpose = outbox_.purpose();
    const std::size_t payload = outbox_.written(written.bytes);
    events_.moved(Direction::sent, purpose, {payload, written.bytes + overhead(Direction::sent)});
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
  link_->when_readable([this] {
    read_armed_ = false;
    read();
  });
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
    const auto [status, bytes, error] =
        link_->read_some({place[0], place[1], object_bytes(next_header_).subspan(next_got_bytes_)});
    count_overhead_received();
    if (status == Link::Status::not_now) return;
    if (status == Link::Status::closed) return fail(kNobody, "it closed the connection");
    if (status == Link::Status::broken) return fail(kNobody, error.message());

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

// Since it was last asked for.
std::uint64_t Connection::overhead(Direction direction) {
  const auto now = static_cast<std::uint64_t>(link_->overhead_bytes(direction));
  return now - std::exchange(overhead_[static_cast<std::size_t>(direction)], now);
}

void Connection::count_overhead_received() {
  const std::uint64_t bytes = overhead(Direction::received);
  if (bytes == 0) return;
  events_.moved(Direction::received, static_cast<Purpose>(header_.purpose), {0, bytes});
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
      if (!std::in_range<int>(header_.channel)) {
        return fail(kPeer, "it gave up because of a rank that there is not");
      }
      return fail(static_cast<int>(header_.channel), "another rank reported it");
    case FrameHeader::Kind::hold:
      outbox_.hold(header_.channel);
      return inbox_.expect_word(outbox_.holds_back());
    case FrameHeader::Kind::resume:
      has_words_ = true;
      outbox_.resume(header_.channel);
      return inbox_.expect_word(outbox_.holds_back());
  }
  fail(kPeer, "it sent a frame of an unknown kind");
}

Time Connection::unanswered_since(Time now) {
  const Link::Signs signs = link_->signs_of_life();
  if (!signs.owes_answer || signs.answered_bytes != answered_bytes_) unanswered_since_ = now;
  answered_bytes_ = signs.answered_bytes;
  return unanswered_since_;
}

void Connection::look_for_end() {
  if (!open_ || !paused_ || link_->signs_of_life().established) return;
  inbox_.keep_everything();
  read();
}

void Connection::fail(int culprit, const std::string& why) {
  if (!open_) return;
  open_ = false;
  if (culprit != kPeer) {  // else close() tells the peer first
    hung_up_ = true;
    link_->close();
  }
  events_.broken(culprit, why);
}

void Connection::close(int culprit) {
  open_ = false;
  if (std::exchange(hung_up_, true)) return;
  if (outbox_.between_fragments()) {
    FrameHeader last;
    last.kind = culprit < 0 ? FrameHeader::Kind::goodbye : FrameHeader::Kind::abort;
    last.channel = static_cast<std::uint32_t>(std::max(culprit, 0));
    write_at_once(*link_, object_bytes(last));
  }
  link_->close();
}

}  // namespace starling
