// SimLink: one end of a simulated connection, byte by byte. Unlike a Stream (stream.h), which models
// how long messages take, it models what a reader and writer of bytes must put up with: pieces of
// every size, delays, full buffers, ends at any moment, silence.
//
// A. What is written takes its place in a buffer of a fixed size, and arrives after a delay, in order.
//    It is acknowledged when it arrives; its place is free again when it is read.
// B. An end that closes, or whose process is killed, sends an end behind what it wrote. What is written
//    to an end that has closed breaks the link: "Connection reset by peer".
// C. While the way is cut nothing arrives. Everything does when it is mended. A link with nothing under
//    way that stays cut breaks by its keep-alive: "Connection timed out".
// D. A host that is stopped still takes and acknowledges what arrives, as long as there is room.
//
// Not modelled: a kernel drops what has not left yet when its process closes without having read all.
#pragma once

#include <memory>
#include <vector>

#include "runtime/link.h"
#include "sim/sim_loop.h"

namespace starling {

class Switch;

// Both directions of one connection, which its two ends share.
class Wire : public std::enable_shared_from_this<Wire> {
 public:
  // Between these hosts of the switch; end 0 is the first one's.
  Wire(Switch& hub, int number, int first_host, int second_host, std::size_t capacity_bytes);

  Link::Transfer write_some(int end, const Link::Parts& parts);
  Link::Transfer read_some(int end, const Link::Places& places);
  void when_readable(int end, Link::Callback callback);
  void when_writable(int end, Link::Callback callback);
  void close(int end);
  Link::Signs signs_of_life(int end) const;

  int host(int end) const { return sides_[static_cast<std::size_t>(end)].host; }
  // The way from that end to the other is not cut any more.
  void mend(int from_end);
  // Calls back whoever can go on, soon.
  void wake(int end);
  // Keep-alive: the cut has lasted for too long.
  void time_out();

 private:
  // One way, from an end to the other.
  struct Way {
    std::vector<std::byte> ring;
    std::uint64_t written = 0, due = 0, arrived = 0, acknowledged = 0, read = 0;
    bool end_due = false, ended = false;  // behind the last byte
    Time last_arrival{0};
  };
  struct Side {
    int host;
    bool open = true;
    std::error_code broken = {};
    Link::Callback when_readable = {}, when_writable = {};
  };

  Side& side(int end) { return sides_[static_cast<std::size_t>(end)]; }
  Way& from(int end) { return ways_[static_cast<std::size_t>(end)]; }
  const Way& from(int end) const { return ways_[static_cast<std::size_t>(end)]; }
  // When the next piece from that end arrives, of so many bytes.
  Time next_arrival(int end, std::size_t bytes = 0);
  void arrive(int from_end);
  void break_end(int end, std::errc why);
  bool is_readable(int end);
  bool is_writable(int end);

  Switch& hub_;
  int number_;
  std::array<Side, 2> sides_;
  std::array<Way, 2> ways_;
};

class SimLink : public Link {
 public:
  using Link::read_some;
  using Link::write_some;

  SimLink(std::shared_ptr<Wire> wire, int end) : wire_(std::move(wire)), end_(end) {}
  ~SimLink() override { close(); }

  Transfer write_some(const Link::Parts& parts, bool) override {
    return wire_->write_some(end_, parts);
  }
  Transfer read_some(const Link::Places& places) override { return wire_->read_some(end_, places); }
  void when_readable(Callback callback) override {
    wire_->when_readable(end_, std::move(callback));
  }
  void when_writable(Callback callback) override {
    wire_->when_writable(end_, std::move(callback));
  }
  void close() override { wire_->close(end_); }
  Signs signs_of_life() override { return wire_->signs_of_life(end_); }

 private:
  std::shared_ptr<Wire> wire_;
  int end_;
};

}  // namespace starling
