// Joining a job, and what goes wrong in one.
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "bindings.h"
#include "job/launched.h"
#include "job/worker_events.h"

namespace starling {

namespace {

std::optional<ino_t> inode_of(int descriptor) {
  struct stat found {};
  if (::fstat(descriptor, &found) != 0) return std::nullopt;
  return found.st_ino;
}

}  // namespace

Core::Core(const Job& job, std::optional<Session::Elastic> elastic)
    : session_(std::make_unique<SharedSession>(job, std::move(elastic))), timeout_(job.timeout) {
  renew();
}

void Core::renew() {
  const Generations* const all = generations();
  generation_ = all == nullptr ? 1 : all->has_comm() ? all->roster().generation : 0;
  sockets_.clear();
  for (const int descriptor : session_->session().sockets()) {
    if (const auto inode = inode_of(descriptor)) sockets_.push_back({descriptor, *inode});
  }
}

void Core::end_generation() {
  const SharedSession::Hold hold(session());
  session_->give_up_work();
  session_->session().end_generation();
  lost_.reset();
  renew();
}

bool Core::next_generation() {
  const SharedSession::Hold hold(session());
  session_->give_up_work();
  lost_.reset();
  Session& session = session_->session();
  const bool is_in = session.next_generation();
  renew();
  if (is_in) {
    report_generation(session);
  } else {
    report_event(session.job(), {{"event", "left"}});
  }
  return is_in;
}

void Core::close(bool failed) {
  if (before_close) before_close(failed);
  const bool meets_others = session_ && (generations() == nullptr || generations()->has_comm());
  if (meets_others && failed) {
    session_->session().comm().owe_a_finish(true);
    if (lost_) session_->session().comm().blame(*lost_);
  }
  session_.reset();
}

void Core::abandon() {
  static_cast<void>(session_.release());
  forked_ = true;
  for (const Socket& each : sockets_) {
    if (inode_of(each.descriptor) == each.inode) ::close(each.descriptor);
  }
}

void add_session(py::module_& module) {
  const auto error = py::register_exception<Error>(module, "Error", PyExc_RuntimeError);
  py::register_exception<DeadlineExceeded>(module, "Timeout", error);
  py::register_exception<PeerLost>(module, "PeerLost", error);

  py::list elements;
  for (const ElementInfo& each : kElementTypes) elements.append(std::string(each.name));
  module.attr("ELEMENTS") = elements;

  // Whether this process was launched for a job whose workers come and go.
  module.def("is_elastic_job", [] {
    const Job job = job_from_environment();
    return elastic_session(job, launched_settings(job)).has_value();
  });

  py::class_<Core, SharedCore>(module, "Core")
      .def(py::init([](int rank, int size, const std::string& rendezvous, const std::string& secret,
                       int timeout, int listen_fd) {
             Job job;
             job.rank = rank;
             job.size = size;
             job.rendezvous = rendezvous;
             job.secret = secret;
             job.timeout = std::chrono::seconds(timeout);
             job.listen_fd = listen_fd;
             job.encryption = encryption_from_environment();
             const py::gil_scoped_release others_may_run;
             return std::make_shared<Core>(job);
           }),
           py::arg("rank"), py::arg("size"), py::arg("rendezvous"), py::arg("secret"),
           py::arg("timeout") = 60, py::arg("listen_fd") = -1)
      // Where workers come and go, they are let in or out at once, or when all ask for it together.
      .def_static(
          "from_environment",
          [](bool at_once) {
            Job job = launched_job();
            const Settings settings = launched_settings(job);
            job.terms = agreed_settings(settings);
            std::optional<Session::Elastic> elastic = elastic_session(job, settings);
            if (elastic) elastic->rules.at_once = at_once;
            const py::gil_scoped_release others_may_run;
            const auto core = std::make_shared<Core>(job, elastic);
            if (elastic) report_joined(core->session().session());
            return core;
          },
          py::arg("at_once") = true)
      .def_property_readonly("is_elastic", [](Core& core) { return core.generations() != nullptr; })
      .def_property_readonly("generation", &Core::generation)
      .def("end_generation", &Core::end_generation, py::call_guard<py::gil_scoped_release>())
      .def("next_generation", &Core::next_generation, py::call_guard<py::gil_scoped_release>())
      // Whether somebody has come or wants to go, as far as this process knows.
      .def(
          "wants_change",
          [](Core& core) {
            const SharedSession::Hold hold(core.session());
            return core.generations()->council().wants_change();
          },
          py::call_guard<py::gil_scoped_release>())
      .def(
          "leave",
          [](Core& core) {
            const SharedSession::Hold hold(core.session());
            core.generations()->council().leave();
          },
          py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("rank", [](Core& core) { return core.session().comm().rank(); })
      .def_property_readonly("size", [](Core& core) { return core.session().comm().size(); })
      // Of them all the first; servers stand behind.
      .def_property_readonly(
          "workers",
          [](Core& core) { return launched_settings(core.session().session().job()).workers; })
      .def("abandon", &Core::abandon)
      .def("close", &Core::close, py::arg("failed") = false,
           py::call_guard<py::gil_scoped_release>());
}

}  // namespace starling
