#include "strategy/grid.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "strategy/mix_plan.h"
#include "strategy/server_plan.h"
#include "topology/cut.h"

namespace starling {

Place place_of(const Settings& settings, int worker) {
  const ParallelSettings& parallel = settings.parallel;
  return {worker / parallel.slices(), worker / parallel.tensor % parallel.pipeline,
          worker % parallel.tensor};
}

int worker_at(const Settings& settings, Place place) {
  return (place.copy * settings.parallel.pipeline + place.stage) * settings.parallel.tensor +
         place.part;
}

std::string place_name(const Settings& settings, int worker) {
  const ParallelSettings& parallel = settings.parallel;
  const Place place = place_of(settings, worker);
  std::vector<std::string> names;
  if (parallel.slices() == 1) return "";
  if (settings.copies() > 1) names.push_back(fmt::format("copy {}", place.copy));
  if (parallel.pipeline > 1) names.push_back(fmt::format("stage {}", place.stage));
  if (parallel.tensor > 1) names.push_back(fmt::format("part {}", place.part));
  return fmt::format("{}", fmt::join(names, ", "));
}

int slice_of(const Settings& settings, int rank) {
  if (rank < settings.workers) return rank % settings.parallel.slices();
  return (rank - settings.workers) / server_count(settings);
}

Group slice_group(const Settings& settings, Comm& comm, GroupNumber number) {
  const int slices = settings.parallel.slices(), slice = slice_of(settings, comm.rank());
  if (slices == 1) return apart(comm, number);  // everybody, without a list of them
  const int servers = server_processes(settings) / slices;
  std::vector<int> ranks;
  for (int copy = 0; copy < settings.copies(); ++copy) ranks.push_back(copy * slices + slice);
  for (int server = 0; server < servers; ++server) {
    ranks.push_back(settings.workers + slice * servers + server);
  }
  return Group(comm, ranks, static_cast<std::uint32_t>(number));
}

Group slice_workers(const Settings& settings, Comm& comm, GroupNumber number) {
  return slice_group(settings, comm, number)
      .first(settings.copies(), static_cast<std::uint32_t>(number));
}

namespace {

// `place` with `axis` going from 0 to size - 1.
Group along(const Settings& settings, Comm& comm, int Place::*axis, int size, GroupNumber number) {
  Place place = place_of(settings, comm.rank());
  std::vector<int> ranks;
  for (place.*axis = 0; place.*axis < size; ++(place.*axis)) {
    ranks.push_back(worker_at(settings, place));
  }
  return Group(comm, ranks, static_cast<std::uint32_t>(number));
}

}  // namespace

Group copy_group(const Settings& settings, Comm& comm) {
  const int slices = settings.parallel.slices();
  std::vector<int> ranks;
  for (int slice = 0; slice < slices; ++slice) {
    ranks.push_back(comm.rank() / slices * slices + slice);
  }
  return Group(comm, ranks, static_cast<std::uint32_t>(GroupNumber::copy));
}

Group stage_group(const Settings& settings, Comm& comm) {
  return along(settings, comm, &Place::stage, settings.parallel.pipeline, GroupNumber::pipeline);
}

Group part_group(const Settings& settings, Comm& comm) {
  return along(settings, comm, &Place::part, settings.parallel.tensor, GroupNumber::tensor);
}

bool slices_stay_alike(const Settings& settings) {
  if (settings.mix.codec.kind != CodecSettings::Kind::raw) return false;
  if (server_count(settings) > 0) return settings.server.gate.in_step();
  if (!is_mix(settings)) return true;
  return mixes_in_step(settings) && settings.schedule.compute_ratio == 0;
}

void check_grid(const Settings& settings) {
  const int slices = settings.parallel.slices();
  if (slices == 1) return;
  if (settings.workers % slices != 0) {
    throw Error(fmt::format("{} workers do not make whole copies of a model on {} x {} of them",
                            settings.workers, settings.parallel.pipeline, settings.parallel.tensor),
                fmt::format("set workers to {} or a multiple of it", slices));
  }
}

void check_cut(const Settings& settings, std::size_t layers) {
  const auto stages = static_cast<std::size_t>(settings.parallel.pipeline);
  if (stages > layers) {
    throw Error(fmt::format("pipeline = {}, and the model has {} layers", stages, layers),
                fmt::format("it can be 1 to {}", layers));
  }
  if (settings.parallel.stages.empty()) return;
  const std::size_t written = cut_as_written(settings.parallel.stages, layers).size();
  if (written != stages) {
    throw Error(fmt::format("stages = '{}' is {} of them, and pipeline = {}",
                            settings.parallel.stages, written, stages),
                "make them as many");
  }
}

void check_network(const Settings& settings) {
  const ParallelSettings& parallel = settings.parallel;
  if (parallel.slices() == 1) return;
  const std::string& network = settings.train.model;
  const std::optional<int> layers = layer_count(settings.train);
  if (!layers) {
    throw Error(fmt::format("the layers of model = {} are not known, so it cannot be cut", network),
                "take a built-in network, or leave out pipeline and tensor");
  }
  check_cut(settings, static_cast<std::size_t>(*layers));
  const int heads = settings.train.network.heads;
  if (network == "char-gpt" && heads % parallel.tensor != 0) {
    throw Error(fmt::format("heads = {} of attention cannot be shared out evenly among {} workers",
                            heads, parallel.tensor),
                "choose a number of heads that tensor divides");
  }
}

}  // namespace starling
