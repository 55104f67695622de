#include "sim/sim_link.h"

#include <algorithm>
#include <utility>

#include "sim/switch.h"

namespace starling {

namespace {
template <class Parts>
std::size_t size_of(const Parts& parts) {
  return parts[0].size() + parts[1].size() + parts[2].size();
}
}  // namespace

Wire::Wire(Switch& hub, int number, int first_host, int second_host, std::size_t capacity_bytes)
    : hub_(hub), number_(number), sides_{Side{first_host}, Side{second_host}} {
  for (Way& way : ways_) way.ring.resize(capacity_bytes);
}

Time Wire::next_arrival(int end, std::size_t bytes) {
  Way& way = from(end);
  way.last_arrival =
      std::max(way.last_arrival, hub_.loop().now() + hub_.draw_delay(host(end), host(1 - end))) +
      hub_.transfer_time(host(end), host(1 - end), bytes);
  return way.last_arrival;
}

Link::Transfer Wire::write_some(int end, const Link::Parts& parts) {
  if (!side(end).open)
    return {Link::Status::broken, 0, std::make_error_code(std::errc::bad_file_descriptor)};
  if (side(end).broken) return {Link::Status::broken, 0, side(end).broken};
  Way& way = from(end);
  const std::size_t room = way.ring.size() - static_cast<std::size_t>(way.written - way.read);
  if (room == 0) return {Link::Status::not_now};
  const std::size_t bytes = hub_.shorten(std::min(room, size_of(parts)));
  std::size_t left = bytes;
  for (const ConstBytes part : parts) {
    for (const std::byte byte : part.first(std::min(left, part.size()))) {
      way.ring[way.written++ % way.ring.size()] = byte;
    }
    left -= std::min(left, part.size());
  }
  hub_.note({'w', number_, end, bytes});
  hub_.loop().at(next_arrival(end, bytes), [self = shared_from_this(), end, due = way.written] {
    self->from(end).due = due;
    self->arrive(end);
  });
  return {Link::Status::moved, bytes};
}

Link::Transfer Wire::read_some(int end, const Link::Places& places) {
  if (!side(end).open)
    return {Link::Status::broken, 0, std::make_error_code(std::errc::bad_file_descriptor)};
  Way& way = from(1 - end);
  const std::size_t here = static_cast<std::size_t>(way.arrived - way.read);
  if (here == 0) {
    if (way.ended) return {Link::Status::closed};
    if (side(end).broken) return {Link::Status::broken, 0, side(end).broken};
    return {Link::Status::not_now};
  }
  const std::size_t bytes = hub_.shorten(std::min(here, size_of(places)));
  std::size_t left = bytes;
  for (const Bytes place : places) {
    for (std::byte& byte : place.first(std::min(left, place.size()))) {
      byte = way.ring[way.read++ % way.ring.size()];
    }
    left -= std::min(left, place.size());
  }
  hub_.note({'r', number_, end, bytes});
  wake(1 - end);
  return {Link::Status::moved, bytes};
}

bool Wire::is_readable(int end) {
  const Way& way = from(1 - end);
  return way.arrived > way.read || way.ended || side(end).broken;
}

bool Wire::is_writable(int end) {
  const Way& way = from(end);
  return way.written - way.read < way.ring.size() || side(end).broken;
}

void Wire::wake(int end) {
  const auto call = [&](Link::Callback Side::*callback, bool (Wire::*is_ready)(int)) {
    if (!(side(end).*callback) || !(this->*is_ready)(end)) return;
    hub_.loop().at(hub_.loop().now(), [self = shared_from_this(), end, callback, is_ready] {
      if (self->hub_.is_stopped(self->host(end)) || !(self.get()->*is_ready)(end)) return;
      if (const auto wanted = std::exchange(self->side(end).*callback, nullptr)) wanted();
    });
  };
  call(&Side::when_readable, &Wire::is_readable);
  call(&Side::when_writable, &Wire::is_writable);
}

void Wire::when_readable(int end, Link::Callback callback) {
  side(end).when_readable = std::move(callback);
  wake(end);
}

void Wire::when_writable(int end, Link::Callback callback) {
  side(end).when_writable = std::move(callback);
  wake(end);
}

void Wire::arrive(int end) {
  if (hub_.is_cut(host(end), host(1 - end))) return;  // until it is mended
  Way& way = from(end);
  if (!side(1 - end).open) {
    if (way.due > way.arrived) {
      // Behind all that it wrote before it closed.
      hub_.loop().at(next_arrival(1 - end), [self = shared_from_this(), end] {
        self->break_end(end, std::errc::connection_reset);
      });
    }
    return;
  }
  way.arrived = way.due;
  way.ended = way.end_due;
  if (!hub_.is_cut(host(1 - end), host(end))) way.acknowledged = way.arrived;
  hub_.note({'a', number_, end, way.arrived});
  wake(1 - end);
}

void Wire::mend(int end) {
  hub_.loop().at(next_arrival(end), [self = shared_from_this(), end] {
    self->arrive(end);
    self->arrive(1 - end);  // acknowledgements come this way
  });
}

void Wire::break_end(int end, std::errc why) {
  if (!side(end).open || side(end).broken) return;
  side(end).broken = std::make_error_code(why);
  hub_.note({'b', number_, end, 0});
  wake(end);
}

void Wire::time_out() {
  for (int end : {0, 1}) {
    if (from(end).acknowledged == from(end).written) break_end(end, std::errc::timed_out);
  }
}

void Wire::close(int end) {
  Side& closing = side(end);
  closing.when_readable = closing.when_writable = nullptr;
  if (!std::exchange(closing.open, false)) return;
  hub_.note({'c', number_, end, 0});
  hub_.loop().at(next_arrival(end), [self = shared_from_this(), end] {
    self->from(end).end_due = true;
    self->arrive(end);
  });
}

Link::Signs Wire::signs_of_life(int end) const {
  const Way& out = from(end);
  const Way& in = from(1 - end);
  return {!in.ended && !sides_[static_cast<std::size_t>(end)].broken, out.acknowledged + in.arrived,
          out.acknowledged < out.written};
}

}  // namespace starling
