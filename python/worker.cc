// What a training loop in Python needs beside exchanges: settings, and a worker (job/worker.h).
#include "job/worker.h"

#include <pybind11/functional.h>

#include <utility>

#include "bindings.h"
#include "job/launched.h"
#include "job/worker_events.h"

namespace starling {

namespace {

// A worker on a session. Who calls drives the session's loop meanwhile, without Python's lock.
class PyWorker {
 public:
  // The memory is that of the layout.
  PyWorker(SharedCore core, const Settings& settings, Worker::Layout layout,
           const std::string& terms, py::object memory)
      : core_(std::move(core)), memory_(std::move(memory)) {
    if (core_->before_close) {
      throw Error("there is a Dist in this program already", "let it finish before the next one");
    }
    const py::gil_scoped_release others_may_run;
    const SharedSession::Hold hold(core_->session());
    Session& session = core_->session().session();
    try {
      // Who comes later finds the others at work.
      const bool all_begin =
          session.generations() == nullptr || session.generations()->roster().generation == 1;
      if (all_begin) check_alike(session, settings, agreed_settings(settings) + terms);
      // The session is the core's, which ends the worker before it closes it.
      worker_ =
          std::make_unique<Worker>(std::shared_ptr<Session>(std::shared_ptr<void>(), &session),
                                   settings, std::move(layout), Worker::Framework());
    } catch (const std::exception& error) {
      if (session.job().events_fd >= 0) report_error(session.job(), error);
      throw;
    }
    core_->before_close = [this](bool failed) { end(failed); };
  }
  ~PyWorker() {
    const py::gil_scoped_release others_may_run;
    end(false);
  }
  PyWorker(const PyWorker&) = delete;
  PyWorker& operator=(const PyWorker&) = delete;

  // With the worker, whose loop is ours for that long.
  template <class Action>
  auto with(const Action& action) {
    if (!worker_) throw Error("this Dist has ended");
    const py::gil_scoped_release others_may_run;
    const SharedSession::Hold hold(core_->session());
    try {
      return action(*worker_);
    } catch (const Error& error) {
      generation_failed_ = worker_->can_go_on_after(error);
      throw;
    }
  }

  // Of the last error: whether a later generation may do without whoever it was about.
  bool generation_failed() { return std::exchange(generation_failed_, false); }
  bool next_generation() {
    return with([this](Worker& worker) {
      core_->session().give_up_work();
      const bool is_in = worker.next_generation();
      core_->renew();
      return is_in;
    });
  }
  // Python's objects are let go of with this worker, at the latest.
  void keep(py::function save, py::function restore) {
    save_ = std::move(save);
    restore_ = std::move(restore);
    with([this](Worker& worker) { worker.keep({[this] { return saved(); }, restoring()}); });
  }

  void end(bool failed) {
    if (!worker_) return;
    if (!core_->is_open()) {  // a forked child must not speak for its parent
      static_cast<void>(worker_.release());
      return;
    }
    const SharedSession::Hold hold(core_->session());
    if (failed) worker_->fail();
    worker_.reset();
    core_->before_close = nullptr;
  }

 private:
  std::vector<std::byte> saved() {
    const py::gil_scoped_acquire hold;
    const auto text = save_().cast<std::string>();
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  std::function<void(ConstBytes)> restoring() {
    return [this](ConstBytes bytes) {
      const py::gil_scoped_acquire hold;
      restore_(py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    };
  }

  SharedCore core_;
  py::object memory_;
  py::function save_, restore_;
  bool generation_failed_ = false;
  std::unique_ptr<Worker> worker_;
};

std::function<void()> in_python(const py::function& action) {
  return [&action] {
    const py::gil_scoped_acquire hold;
    action();
  };
}

std::span<float> floats(const Memory& memory) {
  return {reinterpret_cast<float*>(memory.address), memory.elements};
}

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
using Triples = std::vector<std::tuple<std::size_t, std::size_t, std::size_t>>;

Worker::Layout layout_of(const Memory& weights, const Memory& gradients, const Pairs& parameters,
                         std::vector<std::string> names, const Triples& folds) {
  Worker::Layout layout{
      .replica = {floats(weights), floats(gradients)}, .parameters = {}, .names = std::move(names)};
  for (const auto& [begin, end] : parameters) layout.parameters.push_back({begin, end});
  for (const auto& [begin, rows, columns] : folds) layout.folds.push_back({begin, rows, columns});
  return layout;
}

void add_settings(py::module_& module) {
  py::class_<Settings>(module, "Settings")
      .def(py::init([](Core& core, const std::string& system, const std::string& toml) {
             return program_settings(core.session().session().job(), system, toml);
           }),
           py::arg("core"), py::arg("system"), py::arg("toml"))
      .def_readonly("workers", &Settings::workers)
      .def_readonly("seed", &Settings::seed)
      .def_property_readonly("slices",
                             [](const Settings& settings) { return settings.parallel.slices(); })
      .def_property_readonly("stages",
                             [](const Settings& settings) { return settings.parallel.stages; })
      .def_property_readonly(
          "micro_batches", [](const Settings& settings) { return settings.parallel.micro_batches; })
      .def_property_readonly("pipeline",
                             [](const Settings& settings) { return settings.parallel.pipeline; })
      .def_property_readonly("tensor",
                             [](const Settings& settings) { return settings.parallel.tensor; })
      .def_property_readonly("recompute",
                             [](const Settings& settings) { return settings.parallel.recompute; })
      .def_property_readonly("strategy",
                             [](const Settings& settings) { return name_of(settings.strategy); })
      .def_property_readonly("clip",
                             [](const Settings& settings) { return settings.optimizer.clip; })
      .def("report",
           [](const Settings& settings, Core& core, const std::string& system) {
             report_settings(core.session().session().job(), system, settings);
           })
      .def("__str__", &write_settings);

  // To the launcher, if there is one; `lost` is the rank on whose account, or -1.
  module.def(
      "report_error",
      [](const std::string& message, int lost) {
        const Job job = job_from_environment();
        if (job.events_fd < 0) return;
        if (lost < 0) return report_error(job, Error(message));
        report_error(job, PeerLost(lost, message));
      },
      py::arg("message"), py::arg("lost") = -1);
}

}  // namespace

void add_worker(py::module_& module) {
  add_settings(module);
  py::class_<PyWorker>(module, "Worker")
      .def(py::init([](SharedCore core, const Settings& settings, const Memory& weights,
                       const Memory& gradients, const Pairs& parameters,
                       std::vector<std::string> names, const Triples& folds,
                       const std::string& terms, py::object memory) {
             return std::make_unique<PyWorker>(
                 std::move(core), settings,
                 layout_of(weights, gradients, parameters, std::move(names), folds), terms,
                 std::move(memory));
           }),
           py::arg("core"), py::arg("settings"), py::arg("weights"), py::arg("gradients"),
           py::arg("parameters"), py::arg("names"), py::arg("folds"), py::arg("terms"),
           py::arg("memory"))
      .def_property_readonly(
          "rank",
          [](PyWorker& self) { return self.with([](Worker& worker) { return worker.rank(); }); })
      .def_property_readonly(
          "size",
          [](PyWorker& self) { return self.with([](Worker& worker) { return worker.size(); }); })
      .def_property_readonly(
          "updates_weights",
          [](PyWorker& self) {
            return self.with([](Worker& worker) { return worker.strategy().updates_weights(); });
          })
      .def("gradient_ready",
           [](PyWorker& self, std::size_t parameter) {
             self.with([&](Worker& worker) { worker.gradient_ready(parameter); });
           })
      .def("pass_over",
           [](PyWorker& self) { self.with([](Worker& worker) { worker.pass_over(); }); })
      .def("step",
           [](PyWorker& self, const py::function& update) {
             return self.with([&](Worker& worker) { return worker.step(in_python(update)); });
           })
      .def("join",
           [](PyWorker& self, const py::function& update) {
             self.with([&](Worker& worker) { worker.join(in_python(update)); });
           })
      .def("expect_uneven_inputs",
           [](PyWorker& self) { self.with([](Worker& worker) { worker.expect_uneven_inputs(); }); })
      .def("mean",
           [](PyWorker& self, const std::vector<double>& values) {
             return self.with([&](Worker& worker) { return worker.mean(values); });
           })
      .def("broadcast",
           [](PyWorker& self, const Memory& memory, int root) {
             const std::span<std::byte> bytes = memory.vector().bytes();
             self.with([&](Worker& worker) { worker.broadcast(bytes, root); });
           })
      .def("barrier", [](PyWorker& self) { self.with([](Worker& worker) { worker.barrier(); }); })
      .def("finish", [](PyWorker& self) { self.with([](Worker& worker) { worker.finish(); }); })
      .def(
          "report",
          [](PyWorker& self, std::optional<double> loss, std::optional<double> test_loss,
             std::optional<double> accuracy, std::optional<double> epoch) {
            self.with([&](Worker& worker) { worker.report({loss, test_loss, accuracy, epoch}); });
          },
          py::arg("loss"), py::arg("test_loss"), py::arg("accuracy"), py::arg("epoch"))
      .def_property_readonly(
          "is_elastic",
          [](PyWorker& self) { return self.with([](Worker& w) { return w.is_elastic(); }); })
      .def("generation_is_over",
           [](PyWorker& self) {
             return self.with([](Worker& worker) { return worker.generation_is_over(); });
           })
      .def("generation_failed", &PyWorker::generation_failed)
      .def("next_generation", &PyWorker::next_generation)
      .def("leave", [](PyWorker& self) { self.with([](Worker& worker) { worker.leave(); }); })
      // save() gives bytes, with which restore(bytes) is called in a worker that takes over from this.
      .def("keep", &PyWorker::keep, py::arg("save"), py::arg("restore"))
      .def("end", &PyWorker::end, py::arg("failed") = false,
           py::call_guard<py::gil_scoped_release>());
}

}  // namespace starling
