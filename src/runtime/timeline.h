// The timeline: what a worker did when, for a picture. Nothing is recorded until it is switched on;
// then a span costs two looks at the clock and a place in memory that was taken beforehand.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/clock.h"

namespace starling {

class Timeline {
 public:
  // Computing, waiting and encoding are the thread's own time and follow one another; what is sent
  // and received overlaps them, and each other.
  enum class Kind : std::uint8_t { compute, wait, encode, send, receive };
  static constexpr std::array<std::string_view, 5> kKindNames = {"compute", "wait", "encode",
                                                                 "send", "receive"};
  struct Span {
    Kind kind;
    const char* name;  // must outlive the timeline
    Time begin, end;
    int peer = -1;  // of a message
    std::uint64_t bytes = 0;
  };

  void switch_on(std::size_t most_spans = 1 << 20) {
    on_ = true;
    spans_.reserve(most_spans);
  }
  bool on() const { return on_; }

  void add(const Span& span) {
    if (!on_) return;
    if (spans_.size() < spans_.capacity()) {
      spans_.push_back(span);
    } else {
      ++left_out_;
    }
  }
  const std::vector<Span>& spans() const { return spans_; }
  std::uint64_t left_out() const { return left_out_; }  // for want of space

  // Lasts as long as this object.
  class Scope {
   public:
    Scope(Timeline& timeline, const Clock& clock, Kind kind, const char* name)
        : timeline_(timeline), clock_(clock), kind_(kind), name_(name) {
      if (timeline_.on()) begin_ = clock_.now();
    }
    ~Scope() {
      if (timeline_.on()) timeline_.add({kind_, name_, begin_, clock_.now()});
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Timeline& timeline_;
    const Clock& clock_;
    Kind kind_;
    const char* name_;
    Time begin_{0};
  };

 private:
  bool on_ = false;
  std::vector<Span> spans_;
  std::uint64_t left_out_ = 0;
};

}  // namespace starling
