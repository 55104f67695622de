// Groups and their exchanges. Every exchange returns Work, which is under way from then on. What
// Python gives is looked at before: what an exchange relies on must not depend on a program in Python.
#include <optional>
#include <vector>

#include "bindings.h"
#include "exchange/allreduce.h"
#include "exchange/collectives.h"
#include "exchange/monitored_barrier.h"
#include "exchange/receive_any.h"
#include "work.h"

namespace starling {

namespace {

constexpr double kGraceSeconds = 5;  // for an exchange that keeps its own deadline

class PyGroup {
 public:
  PyGroup(SharedCore core, std::vector<int> ranks, std::uint32_t number, bool of_stages)
      : core_(std::move(core)),
        messages_(of_stages ? Purpose::activations : Purpose::control),
        ranks_(checked(std::move(ranks), number, core_->session().comm().size())),
        group_(core_->session().comm(), ranks_, number),
        generation_(core_->generation()) {}

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  const std::vector<int>& ranks() const { return ranks_; }

  // A rank of it, and a reduction that there is of such values.
  int member(int rank) const {
    if (rank >= 0 && rank < size()) return rank;
    throw Error(fmt::format("there is no rank {} in a group of {}", rank, size()));
  }
  int peer(int rank) const {
    if (rank == this->rank()) throw Error("there are no messages from a rank to itself");
    return member(rank);
  }
  // Each rank's share of some memory, one behind the other.
  std::vector<Range> pieces(const std::vector<std::size_t>& lengths, const Memory& all) const {
    if (lengths.size() != static_cast<std::size_t>(size())) {
      throw Error(fmt::format("{} lengths in a group of {}", lengths.size(), size()));
    }
    std::vector<Range> pieces;
    std::size_t at = 0;
    for (const std::size_t length : lengths) {
      if (length > all.elements - at) throw Error("the pieces are longer than what they are of");
      pieces.push_back({at, at + length});
      at += length;
    }
    return pieces;
  }
  // What this rank has for itself must fit where it goes.
  void expect_alike(ConstVector from, ConstVector to) const {
    if (from.bytes().size() == to.bytes().size()) return;
    throw Error(
        fmt::format("{} elements for a place of {}: invalid tensor size", from.size(), to.size()));
  }
  ConstVector own(const Memory& all, const std::vector<Range>& pieces) const {
    if (rank() < 0) throw Error("this rank is not in the group");
    const Range piece = pieces[static_cast<std::size_t>(rank())];
    return all.vector().subspan(piece.begin, piece.size());
  }

  using MakeTask = std::function<Task<>(Group group, Channel channel)>;

  PyWork begin(const char* what, MakeTask make_task, std::optional<double> seconds) {
    return begin_on(next_channel(what), std::move(make_task), seconds);
  }
  PyWork begin_on(Channel channel, MakeTask make_task, std::optional<double> seconds) {
    if (core_->generation() != generation_) {
      throw Error("this group is of a generation of the job that is over",
                  "destroy the process group and make it anew");
    }
    if (rank() < 0) throw Error("this rank is not in the group");
    const Time timeout = seconds ? time_of(*seconds) : core_->timeout();
    const py::gil_scoped_release others_may_run;
    return {core_, core_->session().begin(
                       group_.in_comm(channel),
                       [group = group_, channel, make = std::move(make_task)] {
                         return make(group, channel);
                       },
                       timeout)};
  }

  // A message to one place has a channel of its tag.
  Channel tagged(const char* what, std::int64_t tag) const {
    if (tag < 0 || tag >= kTags) {
      throw Error(fmt::format("a message cannot have the tag {}", tag),
                  fmt::format("tags go from 0 to {}", kTags - 1));
    }
    return {kFirstTag + static_cast<std::uint32_t>(tag), messages_, what};
  }

 private:
  static constexpr std::uint32_t kFirstTag = Group::kChannels / 2;
  static constexpr std::int64_t kTags = Group::kChannels / 2;
  static constexpr std::uint32_t kAtOnce = 1 << 16;  // exchanges of a group

  static std::vector<int> checked(std::vector<int> ranks, std::uint32_t number, int workers) {
    if (number >= Group::kNumbers) throw Error(fmt::format("there is no group {}", number));
    for (const int rank : ranks) {
      if (rank < 0 || rank >= workers) {
        throw Error(fmt::format("there is no rank {} among {} workers", rank, workers));
      }
    }
    return ranks;
  }
  // All members begin their exchanges in the same order, so that the same ones meet.
  Channel next_channel(const char* what) { return {begun_++ % kAtOnce, Purpose::gradients, what}; }

  SharedCore core_;
  Purpose messages_;
  std::vector<int> ranks_;
  Group group_;
  std::uint64_t generation_;
  std::uint32_t begun_ = 0;
};

Reduction reduction_named(const std::string& name, const Memory& values) {
  for (std::size_t i = 0; i < kReductionNames.size(); ++i) {
    if (kReductionNames[i] != name) continue;
    combiner(values.vector().type(), static_cast<Reduction>(i));  // throws where there is none
    return static_cast<Reduction>(i);
  }
  throw Error(fmt::format("there is no reduction '{}'", name));
}

Task<> all_gather_of(Group group, Channel channel, Vector all, std::vector<Range> pieces) {
  co_await all_gather(group, channel, all, pieces);
}
Task<> reduce_scatter_of(Group group, Channel channel, Vector values, std::vector<Range> pieces,
                         Reduction reduction) {
  co_await reduce_scatter(group, channel, values, pieces, reduction);
  const Range own = pieces[static_cast<std::size_t>(group.rank())];
  conclude(values.subspan(own.begin, own.size()), reduction, group.size());
}
Task<> gather_of(Group group, Channel channel, ConstVector piece, Vector all,
                 std::vector<Range> pieces, int root) {
  co_await gather(group, channel, piece, all, pieces, root);
}
Task<> scatter_of(Group group, Channel channel, ConstVector all, std::vector<Range> pieces,
                  Vector piece, int root) {
  co_await scatter(group, channel, all, pieces, piece, root);
}
Task<> all_to_all_of(Group group, Channel channel, ConstVector out, std::vector<Range> out_pieces,
                     Vector in, std::vector<Range> in_pieces) {
  co_await all_to_all(group, channel, out, out_pieces, in, in_pieces);
}
Task<> reduce_of(Group group, Channel channel, Vector values, Reduction reduction, int root) {
  co_await reduce(group, channel, values, reduction, root);
  if (group.rank() == root) conclude(values, reduction, group.size());
}
Task<> send_of(Group group, Channel channel, ConstVector values, int to) {
  Send sending = group.send(to, channel, values.bytes());
  co_await sending;
}
Task<> receive_of(Group group, Channel channel, Vector values, int from) {
  Receive receiving = group.receive(from, channel, values.bytes());
  co_await receiving;
}

// What Python learns of an exchange beside the values that it moves.
struct Outcome {
  int from = -1;             // whose message was received
  std::vector<int> missing;  // who did not come to a barrier
};
using SharedOutcome = std::shared_ptr<Outcome>;

Task<> receive_any_of(Group group, Channel channel, Vector values, SharedOutcome outcome) {
  Task<> receiving = receive_any(group, channel, values.bytes(), outcome->from);
  co_await receiving;
}
Task<> monitored_barrier_of(Group group, Channel channel, Time timeout, bool name_all,
                            SharedOutcome outcome) {
  Task<> coming =
      monitored_barrier(group, channel, group.loop().now() + timeout, name_all, outcome->missing);
  co_await coming;
}

void add_messages(py::class_<PyGroup>& group) {
  using Timeout = std::optional<double>;
  const py::arg_v timeout = py::arg("timeout") = py::none();
  group
      .def(
          "send",
          [](PyGroup& self, const Memory& values, int to, std::int64_t tag, Timeout seconds) {
            return self.begin_on(
                self.tagged("send", tag),
                [v = values.vector(), to = self.peer(to)](Group g, Channel c) {
                  return send_of(g, c, v, to);
                },
                seconds);
          },
          py::arg("values"), py::arg("to"), py::arg("tag") = 0, timeout)
      .def(
          "receive",
          [](PyGroup& self, const Memory& values, int from, std::int64_t tag, Timeout seconds) {
            return self.begin_on(
                self.tagged("receive", tag),
                [v = values.vector(), from = self.peer(from)](Group g, Channel c) {
                  return receive_of(g, c, v, from);
                },
                seconds);
          },
          py::arg("values"), py::arg("from_"), py::arg("tag") = 0, timeout)
      .def(
          "receive_any",
          [](PyGroup& self, const Memory& values, std::int64_t tag, Timeout seconds) {
            const auto outcome = std::make_shared<Outcome>();
            PyWork work = self.begin_on(
                self.tagged("receive", tag),
                [v = values.vector(), outcome](Group g, Channel c) {
                  return receive_any_of(g, c, v, outcome);
                },
                seconds);
            return std::pair(std::move(work), outcome);
          },
          py::arg("values"), py::arg("tag") = 0, timeout,
          "The work, and an Outcome that knows whose message it was once that is done.")
      .def(
          "monitored_barrier",
          [](PyGroup& self, double seconds, bool name_all) {
            const auto outcome = std::make_shared<Outcome>();
            PyWork work = self.begin(
                "monitored_barrier",
                [=](Group g, Channel c) {
                  return monitored_barrier_of(g, c, time_of(seconds), name_all, outcome);
                },
                seconds + kGraceSeconds);
            return std::pair(std::move(work), outcome);
          },
          py::arg("timeout"), py::arg("name_all"),
          "The work, and an Outcome that knows who was missing once that is done.");
}

void add_exchanges(py::class_<PyGroup>& group) {
  using Lengths = std::vector<std::size_t>;
  using Timeout = std::optional<double>;
  const py::arg_v timeout = py::arg("timeout") = py::none();
  group
      .def(
          "all_reduce",
          [](PyGroup& self, const Memory& values, const std::string& op, Timeout seconds) {
            return self.begin(
                "all_reduce",
                [v = values.vector(), r = reduction_named(op, values)](Group g, Channel c) {
                  return allreduce(find_allreduce("auto"), g, c, v, r);
                },
                seconds);
          },
          py::arg("values"), py::arg("op"), timeout)
      .def(
          "broadcast",
          [](PyGroup& self, const Memory& values, int root, Timeout seconds) {
            return self.begin(
                "broadcast",
                [v = values.vector(), root = self.member(root)](Group g, Channel c) {
                  return broadcast(g, c, v, root);
                },
                seconds);
          },
          py::arg("values"), py::arg("root"), timeout)
      .def(
          "reduce",
          [](PyGroup& self, const Memory& values, const std::string& op, int root,
             Timeout seconds) {
            return self.begin(
                "reduce",
                [v = values.vector(), r = reduction_named(op, values), root = self.member(root)](
                    Group g, Channel c) { return reduce_of(g, c, v, r, root); },
                seconds);
          },
          py::arg("values"), py::arg("op"), py::arg("root"), timeout)
      .def(
          "all_gather",
          [](PyGroup& self, const Memory& all, const Lengths& lengths, Timeout seconds) {
            return self.begin(
                "all_gather",
                [v = all.vector(), pieces = self.pieces(lengths, all)](Group g, Channel c) {
                  return all_gather_of(g, c, v, pieces);
                },
                seconds);
          },
          py::arg("all"), py::arg("lengths"), timeout)
      .def(
          "reduce_scatter",
          [](PyGroup& self, const Memory& values, const Lengths& lengths, const std::string& op,
             Timeout seconds) {
            return self.begin(
                "reduce_scatter",
                [v = values.vector(), pieces = self.pieces(lengths, values),
                 r = reduction_named(op, values)](Group g, Channel c) {
                  return reduce_scatter_of(g, c, v, pieces, r);
                },
                seconds);
          },
          py::arg("values"), py::arg("lengths"), py::arg("op"), timeout)
      .def(
          "gather",
          [](PyGroup& self, const Memory& piece, const Memory& all, const Lengths& lengths,
             int root, Timeout seconds) {
            auto pieces = self.pieces(lengths, all);
            if (self.rank() == self.member(root)) {
              self.expect_alike(piece.vector(), self.own(all, pieces));
            }
            return self.begin(
                "gather",
                [p = piece.vector(), v = all.vector(), pieces = std::move(pieces), root](
                    Group g, Channel c) { return gather_of(g, c, p, v, pieces, root); },
                seconds);
          },
          py::arg("piece"), py::arg("all"), py::arg("lengths"), py::arg("root"), timeout)
      .def(
          "scatter",
          [](PyGroup& self, const Memory& all, const Lengths& lengths, const Memory& piece,
             int root, Timeout seconds) {
            auto pieces = self.pieces(lengths, all);
            if (self.rank() == self.member(root)) {
              self.expect_alike(piece.vector(), self.own(all, pieces));
            }
            return self.begin(
                "scatter",
                [p = piece.vector(), v = all.vector(), pieces = std::move(pieces), root](
                    Group g, Channel c) { return scatter_of(g, c, v, pieces, p, root); },
                seconds);
          },
          py::arg("all"), py::arg("lengths"), py::arg("piece"), py::arg("root"), timeout)
      .def(
          "all_to_all",
          [](PyGroup& self, const Memory& out, const Lengths& out_lengths, const Memory& in,
             const Lengths& in_lengths, Timeout seconds) {
            auto out_pieces = self.pieces(out_lengths, out);
            auto in_pieces = self.pieces(in_lengths, in);
            self.expect_alike(self.own(out, out_pieces), self.own(in, in_pieces));
            return self.begin(
                "all_to_all",
                [o = out.vector(), i = in.vector(), op = std::move(out_pieces),
                 ip = std::move(in_pieces)](Group g, Channel c) {
                  return all_to_all_of(g, c, o, op, i, ip);
                },
                seconds);
          },
          py::arg("out"), py::arg("out_lengths"), py::arg("into"), py::arg("in_lengths"), timeout)
      .def(
          "barrier",
          [](PyGroup& self, Timeout seconds) {
            return self.begin(
                "barrier", [](Group g, Channel c) { return barrier(g, c); }, seconds);
          },
          timeout);
}

}  // namespace

void add_groups(py::module_& module) {
  module.attr("GROUPS") = Group::kNumbers;
  py::class_<PyWork>(module, "Work")
      .def("done", &PyWork::done)
      .def("wait", &PyWork::wait, py::arg("timeout") = py::none())
      .def("then", &PyWork::then);

  py::class_<PyGroup> group(module, "Group");
  group
      .def(py::init<SharedCore, std::vector<int>, std::uint32_t, bool>(), py::arg("core"),
           py::arg("ranks"), py::arg("number"), py::arg("of_stages") = false)
      .def_property_readonly("rank", &PyGroup::rank)
      .def_property_readonly("size", &PyGroup::size)
      .def_property_readonly("ranks", &PyGroup::ranks);
  add_exchanges(group);
  add_messages(group);

  py::class_<Outcome, SharedOutcome>(module, "Outcome")
      .def_readonly("from_", &Outcome::from)
      .def_readonly("missing", &Outcome::missing);
}

}  // namespace starling
