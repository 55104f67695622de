// Joining a job, and what goes wrong in one.
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "bindings.h"
#include "job/launched.h"

namespace starling {

namespace {

std::optional<ino_t> inode_of(int descriptor) {
  struct stat found {};
  if (::fstat(descriptor, &found) != 0) return std::nullopt;
  return found.st_ino;
}

}  // namespace

Core::Core(const Job& job) : session_(std::make_unique<SharedSession>(job)), timeout_(job.timeout) {
  for (const int descriptor : session_->session().sockets()) {
    if (const auto inode = inode_of(descriptor)) sockets_.push_back({descriptor, *inode});
  }
}

void Core::close(bool failed) {
  if (before_close) before_close(failed);
  if (session_ && failed) {
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

  py::class_<Memory>(module, "Memory")
      .def(py::init<std::uintptr_t, std::size_t, int>(), py::arg("address"), py::arg("elements"),
           py::arg("element"));
  py::list elements;
  for (const ElementInfo& each : kElementTypes) elements.append(std::string(each.name));
  module.attr("ELEMENTS") = elements;

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
      .def_static("from_environment",
                  [] {
                    Job job = launched_job();
                    const Settings settings = launched_settings(job);
                    job.terms = agreed_settings(settings);
                    const py::gil_scoped_release others_may_run;
                    return std::make_shared<Core>(job);
                  })
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
