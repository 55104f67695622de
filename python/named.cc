// Exchanges that meet by name.
#include <mutex>
#include <unordered_set>

#include "bindings.h"
#include "exchange/named_exchanges.h"
#include "work.h"

namespace starling {

namespace {

template <std::size_t kCount>
std::size_t index_of(const std::array<std::string_view, kCount>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw Error(fmt::format("there is no {}", name));
  return static_cast<std::size_t>(found - names.begin());
}

std::string key_of(const NamedRequest& request) {
  std::string key(kActNames[static_cast<std::size_t>(request.act)]);
  return key.append(".").append(request.name);
}

// A tensor that is asked for: where it lies, where its result goes (0: wherever), and its shape.
struct PyTensor {
  std::uintptr_t from, to;
  int element;
  std::vector<std::uint64_t> shape;
};

// Memory that Python takes over without a copy.
struct PyGathered {
  Gathered memory;
};

// What was asked for, and what comes of it.
class PyExchange {
 public:
  PyExchange(const std::string& act, const std::string& name, std::vector<PyTensor> tensors,
             const std::string& blend, int root, double before, double after,
             std::vector<std::uint64_t> splits)
      : tensors_(std::move(tensors)) {
    request_.act = static_cast<Act>(index_of(kActNames, act));
    request_.name = name;
    request_.blend = static_cast<Blend>(index_of(kBlendNames, blend));
    request_.root = root;
    request_.before = before;
    request_.after = after;
    request_.splits = std::move(splits);
    for (const PyTensor& tensor : tensors_) {
      if (tensor.element < 0 || tensor.element >= static_cast<int>(kElementTypes.size())) {
        throw Error(fmt::format("there is no element type {}", tensor.element));
      }
      request_.tensors.push_back({static_cast<Element>(tensor.element), tensor.shape});
    }
    check(request_);
    key_ = key_of(request_);
  }

  std::string_view act() const { return kActNames[static_cast<std::size_t>(request_.act)]; }
  const std::string& name() const { return request_.name; }
  // In flight there is one of a kind and name.
  const std::string& key() const { return key_; }
  SharedExchange made(Loop& loop, int place, int size) {
    std::vector<NamedExchange::Place> places;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const TensorForm& form = request_.tensors[t];
      std::uint64_t rows = form.rows();
      if (request_.act == Act::reducescatter) {
        const auto ranks = static_cast<std::uint64_t>(size),
                   own = static_cast<std::uint64_t>(place);
        rows = rows / ranks + (own < rows % ranks ? 1 : 0);
      }
      places.push_back(
          {{form.type, reinterpret_cast<const std::byte*>(tensors_[t].from), form.elements()},
           {form.type, reinterpret_cast<std::byte*>(tensors_[t].to), rows * form.row_elements()}});
    }
    exchange_ = std::make_shared<NamedExchange>(loop, request_, std::move(places));
    return exchange_;
  }
  // The same once more, of one tensor that lies there now and is reduced in place.
  SharedExchange once_more(std::uintptr_t address) {
    if (!exchange_ || !exchange_->ended) throw Error("an exchange that has not ended is in use");
    const TensorForm& form = request_.tensors.front();
    const Vector where(form.type, reinterpret_cast<std::byte*>(address), form.elements());
    exchange_->places.front() = {where, where};
    exchange_->ended = false;
    exchange_->error = nullptr;
    return exchange_;
  }

  // Once it is done.
  std::vector<std::uint64_t> rows() const { return exchange_->rows; }
  // In seconds: when it was asked for, had begun, and was over.
  std::vector<double> times() const {
    std::vector<double> seconds;
    for (const Time time : {exchange_->asked, exchange_->begun, exchange_->over}) {
      seconds.push_back(std::chrono::duration<double>(time).count());
    }
    return seconds;
  }
  std::vector<PyGathered> take_gathered() {
    std::vector<PyGathered> all;
    for (Gathered& each : exchange_->gathered) all.push_back({std::move(each)});
    exchange_->gathered.clear();
    return all;
  }

 private:
  NamedRequest request_;
  std::string key_;
  std::vector<PyTensor> tensors_;
  SharedExchange exchange_;
};

class PyNamedExchanges {
 public:
  PyNamedExchanges(SharedCore core, const std::vector<int>& ranks, std::uint32_t number,
                   std::size_t fused_bytes, double seconds, double warning_seconds)
      : core_(std::move(core)),
        group_(core_->session().comm(), ranks, number),
        timeout_(time_of(seconds)) {
    NamedExchanges::Limits limits{timeout_, fused_bytes};
    limits.warning = time_of(warning_seconds);
    const py::gil_scoped_release others_may_run;
    core_->session().run(
        "meeting", [&] { return open(limits); }, core_->timeout());
  }

  // Asks for all of them; done when all are. A duplicate is a ValueError, and nothing is asked for.
  PyWork ask(const std::vector<PyExchange*>& exchanges, std::optional<double> seconds) {
    auto task = prepared(exchanges);
    const Time timeout = timeout_of(seconds);
    const py::gil_scoped_release others_may_run;
    return {core_, core_->session().begin("an exchange by name", std::move(task), timeout)};
  }
  // Those that have ended, once more, with their tensors at these addresses.
  PyWork ask_again(const std::vector<PyExchange*>& exchanges,
                   const std::vector<std::uintptr_t>& addresses) {
    auto task = prepared_again(exchanges, addresses);
    const py::gil_scoped_release others_may_run;
    return {core_, core_->session().begin("an exchange by name", std::move(task), timeout_of({}))};
  }
  void run_again(const std::vector<PyExchange*>& exchanges,
                 const std::vector<std::uintptr_t>& addresses) {
    run_task(prepared_again(exchanges, addresses), timeout_of({}));
  }
  // The same, and waits: in this thread, if no other drives already.
  void run(const std::vector<PyExchange*>& exchanges, std::optional<double> seconds) {
    run_task(prepared(exchanges), timeout_of(seconds));
  }
  // Before the core is closed.
  void close() {
    const py::gil_scoped_release others_may_run;
    core_->session().run(
        "closing", [this] { return shut(); }, core_->timeout());
  }
  // In a forked child, which has none of its threads.
  void abandon() { static_cast<void>(named_.release()); }

 private:
  struct InFlight {
    std::mutex mutex;
    std::unordered_set<std::string> names;
  };

  // What is overdue is told by the coordinator, which knows who is missing; only if that one is
  // silent it ends here.
  Time timeout_of(std::optional<double> seconds) const {
    return seconds ? time_of(*seconds) : timeout_ * 5 / 4 + std::chrono::seconds(2);
  }
  void run_task(SharedSession::MakeTask task, Time timeout) {
    std::shared_ptr<SharedSession::Work> unfinished;
    {
      const py::gil_scoped_release others_may_run;
      unfinished = core_->session().run("an exchange by name", std::move(task), timeout,
                                        PyWork::kLookForSignals);
    }
    if (unfinished) PyWork(core_, std::move(unfinished)).wait({});
  }

  // One name of a kind at a time. If one is taken, none is.
  void reserve_names(const std::vector<PyExchange*>& exchanges) {
    if (group_.rank() < 0) throw py::value_error("this rank is not in the process set");
    const std::lock_guard lock(in_flight_->mutex);
    for (std::size_t i = 0; i < exchanges.size(); ++i) {
      if (in_flight_->names.insert(exchanges[i]->key()).second) continue;
      for (std::size_t taken = 0; taken < i; ++taken) {
        in_flight_->names.erase(exchanges[taken]->key());
      }
      throw py::value_error(fmt::format(
          "{} is in flight already: an exchange must have ended before another one of its name is "
          "asked for",
          exchanges[i]->key()));
    }
  }
  SharedSession::MakeTask prepared(const std::vector<PyExchange*>& exchanges) {
    reserve_names(exchanges);
    std::vector<SharedExchange> made;
    for (PyExchange* each : exchanges) {
      made.push_back(each->made(core_->session().session().loop(), group_.rank(), group_.size()));
    }
    return [this, made = std::move(made)] { return asked(made, in_flight_); };
  }
  SharedSession::MakeTask prepared_again(const std::vector<PyExchange*>& exchanges,
                                         const std::vector<std::uintptr_t>& addresses) {
    if (exchanges.size() != addresses.size()) throw Error("there is an address for each exchange");
    reserve_names(exchanges);
    std::vector<SharedExchange> made;
    for (std::size_t i = 0; i < exchanges.size(); ++i) {
      made.push_back(exchanges[i]->once_more(addresses[i]));
    }
    return [this, made = std::move(made)] { return asked(made, in_flight_); };
  }
  // This object may be gone when it goes on.
  Task<> asked(std::vector<SharedExchange> exchanges, std::shared_ptr<InFlight> in_flight) {
    std::exception_ptr error;
    try {
      if (!named_) throw Error("the exchanges of this group are closed");
      named_->ask(exchanges);
      co_await NamedExchanges::all_ended(exchanges);
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(in_flight->mutex);
      for (const SharedExchange& each : exchanges) in_flight->names.erase(key_of(each->request));
    }
    if (error) std::rethrow_exception(error);
  }

  Task<> open(NamedExchanges::Limits limits) {
    if (group_.rank() >= 0) named_ = std::make_unique<NamedExchanges>(group_, limits);
    co_return;
  }
  Task<> shut() {
    named_.reset();
    co_return;
  }

  SharedCore core_;
  Group group_;
  Time timeout_;                           // for the others to ask for the same
  std::unique_ptr<NamedExchanges> named_;  // only the thread that drives looks at it
  std::shared_ptr<InFlight> in_flight_ = std::make_shared<InFlight>();
};

}  // namespace

void add_named_exchanges(py::module_& module) {
  py::class_<PyTensor>(module, "Tensor")
      .def(py::init<std::uintptr_t, std::uintptr_t, int, std::vector<std::uint64_t>>(),
           py::arg("from_"), py::arg("to"), py::arg("element"), py::arg("shape"));
  py::class_<PyGathered>(module, "Gathered", py::buffer_protocol())
      .def("__len__", [](const PyGathered& self) { return self.memory.bytes; })
      .def_buffer([](PyGathered& self) {
        return py::buffer_info(reinterpret_cast<std::uint8_t*>(self.memory.memory.get()),
                               static_cast<py::ssize_t>(self.memory.bytes));
      });
  py::class_<PyExchange>(module, "NamedExchange")
      .def(py::init<const std::string&, const std::string&, std::vector<PyTensor>,
                    const std::string&, int, double, double, std::vector<std::uint64_t>>(),
           py::arg("act"), py::arg("name"), py::arg("tensors"), py::arg("blend") = "sum",
           py::arg("root") = 0, py::arg("before") = 1.0, py::arg("after") = 1.0,
           py::arg("splits") = std::vector<std::uint64_t>())
      .def_property_readonly("act", &PyExchange::act)
      .def_property_readonly("name", &PyExchange::name)
      .def_property_readonly("rows", &PyExchange::rows)
      .def_property_readonly("times", &PyExchange::times)
      .def("take_gathered", &PyExchange::take_gathered);
  py::class_<PyNamedExchanges>(module, "NamedExchanges")
      .def(py::init<SharedCore, const std::vector<int>&, std::uint32_t, std::size_t, double,
                    double>(),
           py::arg("core"), py::arg("ranks"), py::arg("number"), py::arg("fused_bytes"),
           py::arg("seconds"), py::arg("warning_seconds"))
      .def("ask", &PyNamedExchanges::ask, py::arg("exchanges"), py::arg("timeout") = py::none())
      .def("ask_again", &PyNamedExchanges::ask_again, py::arg("exchanges"), py::arg("addresses"))
      .def("run_again", &PyNamedExchanges::run_again, py::arg("exchanges"), py::arg("addresses"))
      .def("run", &PyNamedExchanges::run, py::arg("exchanges"), py::arg("timeout") = py::none())
      .def("close", &PyNamedExchanges::close)
      .def("abandon", &PyNamedExchanges::abandon);
}

}  // namespace starling
