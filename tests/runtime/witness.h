// A witness stands in a coroutine's frame and writes down when the frame goes away, finished or
// cancelled.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace starling {

using Notes = std::vector<std::string>;

class Witness {
 public:
  Witness(Notes& notes, std::string note) : notes_(notes), note_(std::move(note)) {}
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  ~Witness() { notes_.push_back(note_); }

 private:
  Notes& notes_;
  std::string note_;
};

}  // namespace starling
