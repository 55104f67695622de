// What a component must not lose when its process ends. It lists that once:
//
//   void visit_state(State state) {
//     state("velocity", velocity_);
//     state("steps", steps_);
//   }
//
// and the list serves both ways: it copies everything into a Snapshot, or takes it back from one. A
// snapshot is names and bytes, so that it can be written to a file or sent to another rank by who
// knows nothing of what is in it.
//
// What all workers have alike (state.shared()) is good for whoever comes, and for any number of them;
// the rest is of one worker among as many as there were.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"

namespace starling {

struct Snapshot {
  struct Part {
    std::vector<std::byte> bytes;
    bool shared = false;  // all workers have it alike
    bool operator==(const Part&) const = default;
  };
  std::map<std::string, Part, std::less<>> parts;
  bool partial = false;  // for whoever restores from it: what is not in it stays as it is

  bool operator==(const Snapshot&) const = default;
  // Of this, what all workers have alike.
  Snapshot shared() const;
  // What stands under a prefix, without it.
  Snapshot under(std::string_view prefix) const;
};

// As one sequence of bytes, piece by piece, and how many that will be.
void encode(const Snapshot& snapshot, const std::function<void(ConstBytes)>& write);
std::size_t encoded_bytes(const Snapshot& snapshot);
std::vector<std::byte> encode(const Snapshot& snapshot);
// Of anybody's bytes: throws Error on what encode() cannot have written.
Snapshot decode_snapshot(ConstBytes bytes);

class State;

template <class T>
concept PlainState = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
                     !std::same_as<T, bool> && !std::same_as<T, State>;

// Copies one way or the other. By default neither: there is no past.
class State {
 public:
  State() = default;
  static State saving(Snapshot& into) { return {&into, nullptr, ""}; }
  // The snapshot must live for as long as somebody restores from it.
  static State restoring(const Snapshot& from) { return {nullptr, &from, ""}; }

  bool saves() const { return into_ != nullptr; }
  bool restores() const { return from_ != nullptr; }
  // Everything is there, of this very worker among as many as there are.
  bool restores_all() const { return restores() && !from_->partial; }
  bool has(std::string_view name) const;
  // Of what is restored from, all that stands under a name of ours.
  Snapshot under(std::string_view name) const {
    return from_ == nullptr ? Snapshot() : from_->under(prefix_ + std::string(name));
  }

  // What a part of the component lists, under a name of its own.
  State in(std::string_view part) const {
    return {into_, from_, prefix_ + std::string(part) + "/", shared_};
  }
  State in(std::size_t part) const { return in(std::to_string(part)); }
  // The same, for what all workers have alike.
  State shared() const { return {into_, from_, prefix_, true}; }

  // Restoring throws Error if there is no such name, or if the length is another.
  void operator()(std::string_view name, bool& value) const;
  template <PlainState T>
  void operator()(std::string_view name, T& value) const {
    visit(name, object_bytes(value));
  }
  template <PlainState T>
  void operator()(std::string_view name, std::span<T> values) const {
    visit(name, std::as_writable_bytes(values));
  }
  template <PlainState T>
  void operator()(std::string_view name, std::vector<T>& values) const {
    visit(name, std::as_writable_bytes(std::span(values)));
  }
  void operator()(std::string_view name, Random& random) const;
  void operator()(std::string_view name, std::string& text) const;
  // For what has no length of its own before it is restored.
  template <PlainState T>
  void of_any_length(std::string_view name, std::vector<T>& values) const {
    if (const Snapshot::Part* part = find(name)) {
      check_length(name, part->bytes.size() % sizeof(T) == 0);
      values.resize(part->bytes.size() / sizeof(T));
    }
    visit(name, std::as_writable_bytes(std::span(values)));
  }

 private:
  State(Snapshot* into, const Snapshot* from, std::string prefix, bool shared = false)
      : into_(into), from_(from), prefix_(std::move(prefix)), shared_(shared) {}

  void visit(std::string_view name, Bytes bytes) const;
  // Where it is restored from; none if nothing is. Throws Error if it is missing.
  const Snapshot::Part* find(std::string_view name) const;
  void check_length(std::string_view name, bool fits) const;

  Snapshot* into_ = nullptr;
  const Snapshot* from_ = nullptr;
  std::string prefix_;
  bool shared_ = false;
};

}  // namespace starling
