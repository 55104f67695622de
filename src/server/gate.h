// A gate decides when a server acts: which of the gradients that wait make up the next update, and
// when a worker may read. Everything else about a parameter server is the same for all of them.
//
//   bsp       all gradients of a step are one update, and all wait for it
//   ssp       a gradient is an update as it comes; who is more than s steps ahead of the slowest
//             waits. s = 0 is bsp
//   async     a gradient is an update as it comes, nobody waits. It is ssp with s = infinity
//   value     as async, but an update that would move the weights by Delta or more away from what
//             some worker is computing on is held
//   quorum    the first q gradients on the newest weights are one update, later ones are dropped
//   softsync  every c gradients are one update, on whatever weights; none is dropped. c = 1 is async
//
// The early end of an epoch is not about updates but about who does what next: see clerk.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/names.h"
#include "base/setting.h"

namespace starling {

class Block;

class Gate {
 public:
  virtual ~Gate() = default;

  // Puts the waiting pushes that make up the next update, as their mean, into `chosen`: as indices
  // into block.waiting(), in the order in which they are added up. None: not yet.
  virtual void choose(const Block& block, std::vector<std::size_t>& chosen) const = 0;
  virtual bool may_read(const Block& block, int worker) const = 0;

  // Whether all workers must be there to the end, so that the loss of one ends the run.
  virtual bool needs_everybody() const = 0;
  // Whether nothing is updated while a worker still reads.
  virtual bool reads_alone() const { return false; }
  // Whether it looks at what workers have read.
  virtual bool looks_at_reads() const { return false; }
  // Whether gradients on any but the newest weights are dropped.
  virtual bool drops_late() const { return false; }
};

struct GateSettings {
  enum class Kind { bsp, ssp, async, value, quorum, softsync };
  friend constexpr Names<6> names_of(Kind) {
    return {"gate", {"bsp", "ssp", "async", "value", "quorum", "softsync"}};
  }

  Kind kind = Kind::bsp;
  int delay_bound = 3;       // ssp: s
  double value_bound = 0.1;  // value: Delta
  int quorum = 0;            // quorum: q, softsync: c; 0: to be filled in, all but one worker
  double epoch_share = 1;    // the share of its samples after which an epoch ends for all

  // Whether all workers do every step together.
  bool in_step() const { return kind == Kind::bsp || (kind == Kind::ssp && delay_bound == 0); }

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    const auto gate = [&](Kind kind) { return Use{s.kind == kind, fmt::format("gate {}", kind)}; };
    visit({"gate", Section::servers, "server: when it answers: " + names_listed<Kind>(" or ")},
          s.kind);
    visit({"delay_bound", Section::servers,
           "ssp: how many steps a worker may be ahead of the slowest", gate(Kind::ssp)},
          s.delay_bound, 0, 1'000'000'000);
    visit({"value_bound", Section::servers,
           "value: how far a weight may move while a worker computes", gate(Kind::value)},
          s.value_bound, 1e-12, 1e6);
    visit({"quorum",
           Section::servers,
           "quorum, softsync: how many gradients make an update; 0: all but one worker's",
           {s.kind == Kind::quorum || s.kind == Kind::softsync, "gates quorum and softsync"}},
          s.quorum, 0, 4096);
    visit({"epoch_share", Section::servers,
           "server: the share of its samples after which an epoch ends for all"},
          s.epoch_share, 0.01, 1.0);
  }
};

std::unique_ptr<Gate> make_gate(const GateSettings& settings);

// One function a gate, each in the file of its name.
std::unique_ptr<Gate> make_bsp_gate();
std::unique_ptr<Gate> make_ssp_gate(std::uint64_t delay_bound);
std::unique_ptr<Gate> make_async_gate();
std::unique_ptr<Gate> make_value_gate(double value_bound);
std::unique_ptr<Gate> make_quorum_gate(int quorum);
std::unique_ptr<Gate> make_softsync_gate(int gradients);

// What gates share. So many of the pushes that came first, by worker, or as many as there are
// workers left to send one; none if there are fewer.
void choose_first(const Block& block, int pushes, std::vector<std::size_t>& chosen);
// The most stale of the waiting pushes, the first of equals:
void choose_most_stale(const Block& block, std::vector<std::size_t>& chosen);
// All pushes of the round that is due (as many rounds as updates have been), by worker, once every
// active worker's is there.
void choose_whole_round(const Block& block, std::vector<std::size_t>& chosen);

}  // namespace starling
