// Which elements of a vector are meant, when they are a part of it: ascending indices, written as
// the gaps between them (how many elements are passed over) in Rice's code.
//
// A gap is its lowest `width` bits, then the rest in unary: so many zeros and a one. Both sides
// derive the width from how many of how many elements are meant, so that the worst case is
// shortest. For 1 % of the elements it is 6, and an index takes 8.1 bits where its information is
// 8.08; a byte-wise varint would take 10.2. For more than a third of the elements it is 0, and what
// is left is a bitmap: a one for every element that is meant, a zero for every other one before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace starling {

unsigned gap_width(std::size_t elements, std::size_t count);

// No `count` indices take more bits than this, nor do fewer.
std::size_t largest_gap_bits(std::size_t elements, std::size_t count);

class GapWriter {
 public:
  // Appends to `code` which `count` of `elements` are meant.
  GapWriter(std::vector<std::byte>& code, std::size_t elements, std::size_t count);

  void put(std::size_t index);  // must be above the last one
  void put_bit(bool bit);       // something about the last index, one bit each
  void finish();                // after the last one

 private:
  void put_bits(std::uint64_t bits, unsigned count);
  void flush(unsigned bytes);

  std::vector<std::byte>& code_;
  unsigned width_;
  std::size_t next_ = 0;  // the lowest index that may follow
  std::uint64_t pending_ = 0;
  unsigned pending_bits_ = 0;  // below 64
};

// Reads what a GapWriter may or may not have written, to the end of `code`. Every function throws
// BadCode on what it cannot have written.
class GapReader {
 public:
  GapReader(ConstBytes code, std::size_t elements, std::size_t count);

  std::size_t next();  // below `elements`
  bool next_bit();
  void finish();  // nothing must be left

 private:
  std::uint64_t take_bits(unsigned count);
  std::uint64_t take_unary();
  void fetch();

  ConstBytes rest_;
  std::size_t elements_;
  unsigned width_;
  std::size_t next_ = 0;
  std::uint64_t pending_ = 0;
  unsigned pending_bits_ = 0;
};

}  // namespace starling
