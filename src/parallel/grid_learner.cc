#include "parallel/grid_learner.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "exchange/collectives.h"
#include "parallel/layer_costs.h"
#include "parallel/split_kit.h"
#include "parallel/stage.h"
#include "parallel/whole.h"
#include "strategy/grid.h"
#include "topology/cut.h"
#include "train/blueprint.h"
#include "train/safetensors.h"

namespace starling {

namespace {

constexpr Channel kCutChannel{1, Purpose::control, "telling where layers are cut"};
constexpr Channel kModelChannel{1, Purpose::weights, "writing the model"};

template <class T>
Task<> store(Task<T> task, T& result) {
  result = co_await task;
}

// Parameters and buffers of a slice as a whole model names and shapes them; a copy of another stage's
// parameter is not one of its own.
struct Portion {
  std::string name;
  torch::Tensor mine;
  std::optional<Slice> slice;

  NamedShape shape() const {
    std::vector<std::int64_t> sizes = mine.sizes().vec();
    if (slice) sizes[static_cast<std::size_t>(slice->dimension)] = slice->size;
    return {name, sizes};
  }
};

std::vector<Portion> portions_of(const Model& model) {
  const auto find = [](const std::map<std::size_t, Slice>& slices, std::size_t i) {
    const auto slice = slices.find(i);
    return slice == slices.end() ? std::nullopt : std::optional(slice->second);
  };
  std::vector<Portion> portions;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    if (!model.counts(i, true)) continue;
    const auto& [name, parameter] = model.parameters[i];
    portions.push_back({name, parameter.detach(), find(model.slices, i)});
  }
  for (std::size_t i = 0; i < model.buffers.size(); ++i) {
    const auto& [name, buffer] = model.buffers[i];
    portions.push_back({name, buffer, find(model.buffer_slices, i)});
  }
  return portions;
}

std::string as_text(std::span<const Portion> portions) {
  nlohmann::json list = nlohmann::json::array();
  for (const Portion& portion : portions) {
    const NamedShape shape = portion.shape();
    list.push_back({shape.name, shape.shape});
  }
  return list.dump();
}

// Throws Error if another rank's text is no such list.
std::vector<NamedShape> from_text(const std::string& text, int rank) {
  std::vector<NamedShape> shapes;
  try {
    for (const auto& each : nlohmann::json::parse(text)) {
      shapes.push_back(
          {each.at(0).get<std::string>(), each.at(1).get<std::vector<std::int64_t>>()});
      if (!elements_of(shapes.back().shape)) throw Error("");
    }
  } catch (const std::exception&) {
    throw Error(fmt::format("rank {} has tensors for the model file that are none", rank),
                "all workers must run the same program with the same model and settings");
  }
  return shapes;
}

// One place of a group tells another a text.
Task<> tell_text(Group group, int from, int to, std::string& text) {
  std::uint64_t size = text.size();
  if (group.rank() == from) {
    co_await group.send(to, kModelChannel, object_bytes(size));
    co_await group.send(to, kModelChannel, std::span(text));
  } else {
    constexpr std::uint64_t kMost = 100'000'000;
    co_await group.receive(from, kModelChannel, object_bytes(size));
    if (size > kMost) {
      throw Error(fmt::format("rank {} has {} bytes of names for the model file",
                              group.in_comm(from), size),
                  fmt::format("there can be {}", kMost));
    }
    text.resize(static_cast<std::size_t>(size));
    co_await group.receive(from, kModelChannel, std::span(text));
  }
}

class GridLearner final : public Learner {
 public:
  GridLearner(Dist& dist, const Settings& settings, TensorGroup parts, Loss loss)
      : dist_(dist),
        settings_(settings),
        place_(place_of(settings, dist.comm().rank())),
        parts_(parts),
        stage_(stage_group(settings, dist.comm()), dist.model().model(), options(std::move(loss))) {
  }

  std::optional<double> learn(const DataSet::Batch& batch, double weight) override {
    int passes = passes_of_a_batch(settings_);
    const double loss = stage_.learn(batch, weight, [&] {
      if (--passes > 0) dist_.pass_over();
    });
    dist_.note_computed();
    return stage_.last() ? std::optional(loss) : std::nullopt;
  }

  torch::Tensor scores(const DataSet::Batch& batch) override {
    parts_.set_evaluating(true);
    const torch::Tensor scores = stage_.forward(batch);
    parts_.set_evaluating(false);
    return stage_.last() ? scores : torch::Tensor();
  }

  int who_knows() const override {
    return worker_at(settings_, {0, settings_.parallel.pipeline - 1, 0});
  }

  // Stage by stage, tensor by tensor: nobody has more than its own slice and one whole tensor.
  void save(const std::filesystem::path& file,
            const std::map<std::string, std::string>& metadata) override {
    const std::vector<Portion> mine = portions_of(dist_.model().model());
    std::vector<std::vector<NamedShape>> shapes;
    for (int stage = 0; stage < settings_.parallel.pipeline; ++stage) {
      std::string text = stage == place_.stage ? as_text(mine) : "";
      const int from = worker_at(settings_, {0, stage, 0});
      if (from != who_knows() && (writes() || dist_.copy().rank() == from)) {
        dist_.run("writing the model", tell_text(dist_.copy(), from, who_knows(), text));
      }
      if (writes()) shapes.push_back(from_text(text, dist_.copy().in_comm(from)));
    }
    std::optional<SafetensorsWriter> writer;
    if (writes()) {
      std::vector<NamedShape> all;
      for (const auto& of_stage : shapes) all.insert(all.end(), of_stage.begin(), of_stage.end());
      writer.emplace(file, std::move(all), metadata);
    }
    for (int stage = 0; stage < settings_.parallel.pipeline; ++stage) {
      if (stage == place_.stage) {
        for (const Portion& portion : mine) give(portion, writer);
      } else if (writes()) {
        for (const NamedShape& each : shapes[static_cast<std::size_t>(stage)]) {
          take(each, worker_at(settings_, {0, stage, 0}), *writer);
        }
      }
    }
    if (writer) writer->commit();
    dist_.run("writing the model", barrier(dist_.copy(), kModelChannel));
  }

 private:
  Stage::Options options(Loss loss) {
    const ParallelSettings& parallel = settings_.parallel;
    return {parallel.schedule, passes_of_a_batch(settings_), parallel.recompute, std::move(loss),
            [this](const char* what, Task<> task) { dist_.run(what, std::move(task)); }};
  }

  bool writes() const { return dist_.copy().rank() == who_knows(); }

  // The parts of a stage put a tensor together, and its first one writes it or sends it on.
  void give(const Portion& portion, std::optional<SafetensorsWriter>& writer) {
    torch::Tensor whole;
    dist_.run("writing the model",
              store(assemble(parts_.group(), portion.mine, portion.slice), whole));
    if (place_.part != 0) return;
    whole = whole.contiguous();
    const std::span<const float> values(whole.data_ptr<float>(),
                                        static_cast<std::size_t>(whole.numel()));
    if (writer) {
      writer->add(values);
    } else {
      dist_.run("writing the model", send(values));
    }
  }
  Task<> send(std::span<const float> values) {
    co_await dist_.copy().send(who_knows(), kModelChannel, values);
  }

  void take(const NamedShape& shape, int from, SafetensorsWriter& writer) {
    std::vector<float> values(shape.elements());
    dist_.run("writing the model", receive(from, values));
    writer.add(values);
  }
  Task<> receive(int from, std::span<float> values) {
    co_await dist_.copy().receive(from, kModelChannel, values);
  }

  Dist& dist_;
  Settings settings_;
  Place place_;
  TensorGroup parts_;
  Stage stage_;
};

class GridWorkshop final : public Workshop {
 public:
  explicit GridWorkshop(const Settings& settings) : settings_(settings) { check_network(settings); }

  // Where layers were cut by what they had cost, they must be cut there again.
  void visit_state(State state) override { state.shared()("stages", settings_.parallel.stages); }

  Model make_model(Session& session, const DataSets& data) override {
    const Blueprint blueprint = *find_blueprint(settings_.train, data.classes);
    const auto batch = static_cast<std::size_t>(settings_.train.batch);
    const std::vector<Range> cut = agree_on_cut(
        settings_, session, blueprint, data.train->slice({0, std::min(batch, data.train->count())}),
        mean_cross_entropy);
    settings_.parallel.stages = as_written(cut);
    const Range layers =
        cut[static_cast<std::size_t>(place_of(settings_, session.comm().rank()).stage)];
    parts_.emplace(part_group(settings_, session.comm()), session.job().timeout);
    if (settings_.parallel.tensor == 1) return make_stage(blueprint, layers);
    return make_stage(blueprint, layers, SplitKit(*parts_));
  }

  std::unique_ptr<Learner> make_learner(Dist& dist) override {
    return grid_learner(dist, settings_, *parts_);
  }

 private:
  Settings settings_;
  std::optional<TensorGroup> parts_;
};

std::vector<Range> measured_cut(const Settings& settings, const Comm& comm,
                                const Blueprint& blueprint, const DataSet::Batch& example,
                                const Loss& loss) {
  constexpr int kRepetitions = 3;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const torch::Tensor random = generator.get_state();  // first weights are drawn as if nothing was
  const std::int64_t samples =
      std::max<std::int64_t>(1, example.targets.size(0) / settings.parallel.micro_batches);
  const std::vector<LayerCost> costs = measure_layers(
      blueprint, {example.inputs.narrow(0, 0, samples), example.targets.narrow(0, 0, samples)},
      loss, kRepetitions);
  generator.set_state(random);
  StageLink link;
  if (comm.carrier() != Carrier::network) link.bytes_per_second = 2e9;
  return cut_layers(costs, settings.parallel.pipeline, link);
}

}  // namespace

std::vector<Range> agree_on_cut(const Settings& settings, Session& session,
                                const Blueprint& blueprint, const DataSet::Batch& example,
                                const Loss& loss) {
  const std::size_t layers = blueprint.layers.size();
  check_cut(settings, layers);
  if (!settings.parallel.stages.empty()) return cut_as_written(settings.parallel.stages, layers);
  if (settings.parallel.pipeline == 1) return {blueprint.all()};
  std::vector<std::int64_t> ends(static_cast<std::size_t>(settings.parallel.pipeline));
  if (session.comm().rank() == 0) {
    const std::vector<Range> cut = measured_cut(settings, session.comm(), blueprint, example, loss);
    for (std::size_t i = 0; i < cut.size(); ++i) ends[i] = static_cast<std::int64_t>(cut[i].end);
  }
  const Group everyone =
      Group(session.comm()).first(settings.workers, static_cast<std::uint32_t>(GroupNumber::grid));
  session.run("telling where layers are cut", broadcast(everyone, kCutChannel, std::span(ends), 0));
  std::vector<Range> cut;
  for (const std::int64_t end : ends) {
    cut.push_back({cut.empty() ? 0 : cut.back().end, static_cast<std::size_t>(end)});
  }
  return cut;
}

std::unique_ptr<Workshop> grid_workshop(const Settings& settings) {
  return std::make_unique<GridWorkshop>(settings);
}

std::unique_ptr<Learner> grid_learner(Dist& dist, const Settings& settings, TensorGroup parts,
                                      Loss loss) {
  return std::make_unique<GridLearner>(dist, settings, parts, std::move(loss));
}

}  // namespace starling
