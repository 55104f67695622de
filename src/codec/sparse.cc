#include "codec/sparse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "codec/codec.h"

namespace starling {

namespace {

constexpr unsigned kMostBits = 32;  // at once, beside what is pending

std::size_t checked(std::size_t count, std::size_t elements) {
  if (count > elements) {
    throw BadCode(fmt::format("a code means {} of {} elements", count, elements));
  }
  return count;
}

}  // namespace

// One bit more of width takes `count` bits, and halves the unary parts, which are at most one bit
// for every 2^width elements that are passed over. It pays while those are 2^width times `count`.
unsigned gap_width(std::size_t elements, std::size_t count) {
  if (count == 0 || elements - count < count) return 0;
  return static_cast<unsigned>(std::bit_width((elements - count) / count)) - 1;
}

std::size_t largest_gap_bits(std::size_t elements, std::size_t count) {
  if (count == 0) return 0;
  const unsigned width = gap_width(elements, count);
  return count * (width + 1) + ((elements - count) >> width);
}

GapWriter::GapWriter(std::vector<std::byte>& code, std::size_t elements, std::size_t count)
    : code_(code), width_(gap_width(elements, count)) {
  STARLING_CHECK(width_ <= kMostBits, "gaps among {} elements", elements);
}

void GapWriter::put(std::size_t index) {
  const std::size_t gap = index - next_;
  next_ = index + 1;
  put_bits(gap & ((std::uint64_t{1} << width_) - 1), width_);
  std::size_t zeros = gap >> width_;
  for (; zeros >= kMostBits; zeros -= kMostBits) put_bits(0, kMostBits);
  put_bits(std::uint64_t{1} << zeros, static_cast<unsigned>(zeros) + 1);
}

void GapWriter::put_bit(bool bit) { put_bits(bit ? 1 : 0, 1); }

void GapWriter::finish() { flush((pending_bits_ + 7) / 8); }

void GapWriter::put_bits(std::uint64_t bits, unsigned count) {
  if (pending_bits_ + count >= 64) flush(pending_bits_ / 8);
  pending_ |= bits << pending_bits_;
  pending_bits_ += count;
}

void GapWriter::flush(unsigned bytes) {
  std::array<std::byte, sizeof pending_> out;
  std::memcpy(out.data(), &pending_, sizeof pending_);
  code_.insert(code_.end(), out.begin(), out.begin() + bytes);
  pending_ = bytes < sizeof pending_ ? pending_ >> 8 * bytes : 0;
  pending_bits_ -= std::min(pending_bits_, 8 * bytes);
}

GapReader::GapReader(ConstBytes code, std::size_t elements, std::size_t count)
    : rest_(code), elements_(elements), width_(gap_width(elements, checked(count, elements))) {}

std::size_t GapReader::next() {
  const std::uint64_t low = take_bits(width_);
  const std::uint64_t high = take_unary();
  // In this order nothing overflows, whatever was read.
  if (high > elements_ >> width_ || next_ + (high << width_ | low) >= elements_) {
    throw BadCode(fmt::format("a code means an element behind the last of {}", elements_));
  }
  const std::size_t index = next_ + (high << width_ | low);
  next_ = index + 1;
  return index;
}

bool GapReader::next_bit() { return take_bits(1) != 0; }

void GapReader::finish() {
  if (!rest_.empty() || pending_bits_ >= 8 || pending_ != 0) {
    throw BadCode("a code goes on behind its end");
  }
}

std::uint64_t GapReader::take_bits(unsigned count) {
  while (pending_bits_ < count) fetch();
  const std::uint64_t bits = pending_ & ((std::uint64_t{1} << count) - 1);
  pending_ >>= count;
  pending_bits_ -= count;
  return bits;
}

std::uint64_t GapReader::take_unary() {
  std::uint64_t zeros = 0;
  while (pending_ == 0) {
    zeros += pending_bits_;
    pending_bits_ = 0;
    fetch();
  }
  const auto more = static_cast<unsigned>(std::countr_zero(pending_));
  take_bits(more + 1);
  return zeros + more;
}

void GapReader::fetch() {
  if (rest_.empty()) throw BadCode("a code ends too early");
  std::uint64_t bits = 0;
  const std::size_t bytes = std::min(rest_.size(), std::size_t{kMostBits / 8});
  std::memcpy(&bits, rest_.data(), bytes);
  pending_ |= bits << pending_bits_;
  pending_bits_ += static_cast<unsigned>(8 * bytes);
  rest_ = rest_.subspan(bytes);
}

}  // namespace starling
