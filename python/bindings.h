// What the files of the core module share. It knows no framework: memory comes as (address, elements,
// element type), so that one build serves numpy and every version of torch. Python's lock is let go of
// wherever something could wait or copy.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "base/vector.h"
#include "job/shared_session.h"

namespace starling {

namespace py = pybind11;

inline Time time_of(double seconds) {
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
}

// Memory of somebody else's, who keeps it until the work is done. To Python it is a tuple of the three:
// to make an object of its own took a tenth of a short exchange's time.
struct Memory {
  std::uintptr_t address;
  std::size_t elements;
  int element;

  Vector vector() const {
    if (element < 0 || element >= static_cast<int>(kElementTypes.size())) {
      throw Error(fmt::format("there is no element type {}", element));
    }
    return {static_cast<Element>(element), reinterpret_cast<std::byte*>(address), elements};
  }
};

// A session that Python holds, and what is left of it when it is closed: nothing.
class Core {
 public:
  explicit Core(const Job& job, std::optional<Session::Elastic> elastic = {});

  SharedSession& session() {
    if (!session_)
      throw Error(forked_ ? "a forked process cannot exchange" : "the session is closed");
    return *session_;
  }
  bool is_open() const { return session_ != nullptr; }
  // Where workers come and go; nothing elsewhere.
  Generations* generations() { return session().session().generations(); }
  // That of the Comm that there is; 0 between two.
  std::uint64_t generation() { return generation_; }
  // Leaves the Comm: of what was begun in it, all fails.
  void end_generation();
  // The same, and is back with another one, and with another rank perhaps. False if this process has
  // left, as it has asked for.
  bool next_generation();
  // The others hear that this rank has left, or that it has failed, and on whose account.
  void close(bool failed);
  void note_lost(int rank) { lost_ = rank; }
  // Notes which generation it is, and which sockets a forked child would have: each has its own.
  void renew();
  // In a forked child, which has none of its threads and must not speak for its parent: closes the
  // sockets that it has inherited without a word.
  void abandon();
  Time timeout() const { return timeout_; }

  // Ends what lives on the session, if anything does, as long as there is one.
  std::function<void(bool failed)> before_close;

 private:
  struct Socket {
    int descriptor;
    ino_t inode;  // whether the number still means that socket
  };

  std::unique_ptr<SharedSession> session_;
  Time timeout_;
  std::vector<Socket> sockets_;
  bool forked_ = false;
  std::uint64_t generation_ = 0;
  std::optional<int> lost_;
};
using SharedCore = std::shared_ptr<Core>;

// One function a file adds to the module what the file is about.
void add_session(py::module_& module);
void add_groups(py::module_& module);
void add_named_exchanges(py::module_& module);
void add_worker(py::module_& module);
void add_pipeline(py::module_& module);
void add_plan(py::module_& module);

}  // namespace starling

template <>
struct pybind11::detail::type_caster<starling::Memory> {
  PYBIND11_TYPE_CASTER(starling::Memory, const_name("Tuple[int, int, int]"));

  bool load(handle source, bool convert) {
    make_caster<std::tuple<std::uintptr_t, std::size_t, int>> parts;
    if (!parts.load(source, convert)) return false;
    std::tie(value.address, value.elements, value.element) =
        cast_op<std::tuple<std::uintptr_t, std::size_t, int>>(std::move(parts));
    return true;
  }
};
