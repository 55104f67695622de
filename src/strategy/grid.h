// The grid: workers as copies x stages x parts. A copy of the model lives on stages x parts workers;
// each of them has a slice of it, the layers of one stage cut into parts:
//
//   rank = (copy * stages + stage) * parts + part
//
// Those who have the same slice, one of each copy, train it together by any data-parallel system, and
// have their own servers, if there are any: those of slice 0 stand behind all workers, then those of
// slice 1, and so on. Without model parallelism there is one slice, and each worker is a copy.
#pragma once

#include <string>

#include "strategy/groups.h"
#include "strategy/settings.h"

namespace starling {

struct Place {
  int copy = 0, stage = 0, part = 0;
  bool operator==(const Place&) const = default;
};

Place place_of(const Settings& settings, int worker);
int worker_at(const Settings& settings, Place place);
// "copy 0, stage 1" and the like, as far as there is more than one; empty if there is one slice.
std::string place_name(const Settings& settings, int worker);
// Which slice a rank has, or serves.
int slice_of(const Settings& settings, int rank);

// All groups here are of the rank that asks.
// Who trains the same slice, in the order of their copies, and the servers behind them.
Group slice_group(const Settings& settings, Comm& comm, GroupNumber number);
inline Group serving_group(const Settings& settings, Comm& comm) {
  return slice_group(settings, comm, GroupNumber::serving);
}
// The workers among them.
Group slice_workers(const Settings& settings, Comm& comm, GroupNumber number);
// All of the same copy; the stages of the same part; the parts of the same stage.
Group copy_group(const Settings& settings, Comm& comm);
Group stage_group(const Settings& settings, Comm& comm);
Group part_group(const Settings& settings, Comm& comm);

// How many backward passes a batch takes: one for each micro-batch.
inline int passes_of_a_batch(const Settings& settings) {
  return settings.parallel.pipeline > 1 ? settings.parallel.micro_batches : 1;
}

// Whether what two workers of a copy both have stays alike by itself, as the systems of all slices do
// the same to it in the same step. Where nobody waits, or each slice is coded as suits it, they do not.
bool slices_stay_alike(const Settings& settings);

// Throws Error, in one sentence, if the workers do not make whole copies.
void check_grid(const Settings& settings);
// Throws Error, in one sentence, if so many layers cannot be cut into the stages that are set.
void check_cut(const Settings& settings, std::size_t layers);
// Throws Error, in one sentence, if the built-in network that is set cannot be spread like that. A
// loop of one's own has a network that is known only there.
void check_network(const Settings& settings);

}  // namespace starling
