// Work as Python sees it.
#pragma once

#include <pybind11/functional.h>

#include <algorithm>
#include <optional>

#include "bindings.h"

namespace starling {

// Work and what it needs until it is done.
class PyWork {
 public:
  // Python's own handlers run only where Python runs, so Ctrl-C would wait for the work to end.
  static constexpr Time kLookForSignals = std::chrono::milliseconds(200);

  PyWork(SharedCore core, std::shared_ptr<SharedSession::Work> work)
      : core_(std::move(core)), work_(std::move(work)) {}

  bool done() const { return work_->done(); }
  // False if it is not done by then. Throws what it failed with.
  bool wait(std::optional<double> seconds) {
    std::optional<Time> left;
    if (seconds) left = time_of(*seconds);
    while (!work_->done() && (!left || *left > Time::zero())) {
      const Time slice = left ? std::min(*left, kLookForSignals) : kLookForSignals;
      {
        const py::gil_scoped_release others_may_run;
        core_->session().wait(*work_, slice);
      }
      if (left) *left -= slice;
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    const bool done = work_->done();
    if (done && work_->error()) rethrow();
    return done;
  }
  // Calls that once it is done, in whichever thread drives then.
  void then(py::function on_end) {
    // Python's lock must be held where the function is let go of, too.
    auto held = std::shared_ptr<py::function>(new py::function(std::move(on_end)),
                                              [](const py::function* function) {
                                                const py::gil_scoped_acquire hold;
                                                delete function;
                                              });
    const py::gil_scoped_release others_may_run;
    core_->session().then(*work_, [held] {
      const py::gil_scoped_acquire hold;
      try {
        (*held)();
      } catch (py::error_already_set& error) {
        error.discard_as_unraisable("the end of an exchange");
      }
    });
  }

 private:
  [[noreturn]] void rethrow() {
    try {
      std::rethrow_exception(work_->error());
    } catch (const PeerLost& lost) {
      core_->note_lost(lost.rank());
      throw;
    }
  }

  SharedCore core_;
  std::shared_ptr<SharedSession::Work> work_;
};

}  // namespace starling
