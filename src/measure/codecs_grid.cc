// starling measure --grid codecs: the three costs of a codec beside each other. Accuracy and bytes are
// those of trainings by all-reduce; time and memory are what `starling bench codecs` measures.
#include <fmt/format.h>

#include "base/units.h"
#include "measure/broken.h"
#include "measure/chosen.h"
#include "measure/codec_bench.h"
#include "measure/grids.h"
#include "measure/subject.h"

namespace starling {

namespace {

using nlohmann::json;

// What the others are held against: it always runs.
constexpr Recipe kUncoded = {"raw", "strategy = 'allreduce'"};

// One line a codec. Each is also trained without feedback, but for half and bfloat, whose residuals
// are next to nothing.
constexpr Recipe kRounded[] = {{"half", "strategy = 'allreduce'; codec = 'half'"},
                               {"bfloat", "strategy = 'allreduce'; codec = 'bfloat'"}};
constexpr Recipe kLossy[] = {
    {"threshold", "strategy = 'allreduce'; codec = 'threshold'; codec_threshold = 1e-3"},
    {"top-k-1-percent", "strategy = 'allreduce'; codec = 'top-k'; codec_share = 0.01"},
    {"random-1-percent", "strategy = 'allreduce'; codec = 'random'; codec_share = 0.01"},
    {"quantized-7", "strategy = 'allreduce'; codec = 'quantized'; codec_levels = 7"},
    {"quantized-1", "strategy = 'allreduce'; codec = 'quantized'; codec_levels = 1"},
    {"hierarchical-7", "strategy = 'allreduce'; codec = 'hierarchical'; codec_levels = 7"},
    {"hierarchical-1", "strategy = 'allreduce'; codec = 'hierarchical'; codec_levels = 1"},
    {"sign", "strategy = 'allreduce'; codec = 'sign'"},
    {"low-rank-4", "strategy = 'allreduce'; codec = 'low-rank'; codec_rank = 4"},
};

struct Coded {
  std::string name;
  Settings settings;
};

std::vector<Coded> coded_runs(const Subject& subject, const MeasureOptions& options) {
  std::vector<Coded> all;
  const auto add = [&](const Recipe& recipe, bool feedback) {
    Settings settings = subject.settings_of(recipe, options.workers.value_or(4));
    settings.train.evaluate_every = 0;
    settings.mix.codec.feedback = feedback;
    check_settings(settings);
    all.push_back({fmt::format("{}{}", recipe.name, feedback ? "" : "-no-feedback"), settings});
  };
  for (const Recipe& recipe : kRounded) add(recipe, true);
  for (const Recipe& recipe : kLossy) {
    add(recipe, true);
    add(recipe, false);
  }
  all = chosen(std::move(all), options.only);
  const std::vector<Coded> others = std::move(all);
  all.clear();
  add(kUncoded, true);
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

// Few samples, on which codecs differ: after all of them nearly every one has learned MNIST.
MeasureOptions on_few_samples(const MeasureOptions& options) {
  MeasureOptions brief = options;
  brief.settings_over = [over = options.settings_over](Settings settings) {
    if (settings.train.steps == 0) {
      settings.train.samples = 10'000;
      settings.train.epochs = 2;
    }
    return over(std::move(settings));
  };
  return brief;
}

}  // namespace

MeasuredGrid measure_codecs(const MeasureOptions& asked) {
  const MeasureOptions options = on_few_samples(asked);
  const Subject subject(options);
  const std::vector<Coded> all = coded_runs(subject, options);
  options.progress->expect(all.size() * static_cast<std::size_t>(options.seeds));
  const std::vector<std::string> columns = {
      "codec",  subject.measure(), "sent in training", "fewer by",
      "encode", "decode",          "memory an element"};
  Table table(columns);
  json rows = json::array();
  Broken broken(columns.size());
  const CodecBench bench;
  const std::vector<float> update = drawn_update(bench.elements, bench.seed);
  std::optional<double> uncoded_bytes;
  for (const Coded& each : all) {
    std::vector<RunSummary> runs;
    try {
      runs = measured_over_seeds(options, each.settings, each.name);
    } catch (const TrainingBroke& broke) {
      if (!uncoded_bytes) throw;
      rows.push_back({{"codec", each.name}, {"broke_down", broke.what()}});
      table.add(broken.row(each.name, broke));
      continue;
    }
    const Sample quality =
        sample_of(runs, [&](const RunSummary& run) { return subject.quality(run); });
    const double bytes = sample_of(runs, [](const RunSummary& run) {
                           return run.sum(&RankSummary::training_bytes_sent);
                         }).mean();
    if (!uncoded_bytes) uncoded_bytes = bytes;
    const CodecSettings& codec = each.settings.mix.codec;
    const CodecCost cost = cost_of(codec, bench, update);
    const double elements = static_cast<double>(bench.elements);
    const bool keeps_residual = codec.feedback && codec.kind != CodecSettings::Kind::raw;
    const double memory =
        static_cast<double>(cost.memory_bytes) / elements + (keeps_residual ? 4.0 : 0.0);
    const auto speed = [&](double seconds) {
      return fmt::format("{:.1f} GB/s", 4 * elements / seconds / 1e9);
    };
    rows.push_back({{"codec", each.name},
                    {"quality", quality.mean()},
                    {"quality_deviation", quality.deviation()},
                    {"bytes_in_training", bytes},
                    {"times_fewer", *uncoded_bytes / bytes},
                    {"encode_seconds", cost.encode_seconds},
                    {"decode_seconds", cost.decode_seconds},
                    {"memory_bytes_an_element", memory}});
    table.add({each.name, subject.text(quality), format_bytes(bytes),
               fmt::format("{:.1f}x", *uncoded_bytes / bytes), speed(cost.encode_seconds),
               speed(cost.decode_seconds), fmt::format("{:.2f} B", memory)});
  }
  const Settings& any = all.front().settings;
  return {.table = table,
          .rows = rows,
          .conditions = {{"workers", any.workers},
                         {"model", any.train.model},
                         {"data", name_of(any.train.data)},
                         {"measure", subject.measure()},
                         {"seeds", options.seeds}},
          .headline = fmt::format("{} by all-reduce of coded gradients, {} samples, {} seed{}",
                                  subject.describe(any), any.train.samples, options.seeds,
                                  options.seeds == 1 ? "" : "s"),
          .remarks =
              fmt::format("Bytes are what all workers sent in training. Encode and decode are of "
                          "an update of {}, in processor time of\none core, the fastest of {} "
                          "rounds. Memory is beside the vector and the code, the residual's 4 B "
                          "included.",
                          format_bytes(4 * static_cast<double>(bench.elements)), bench.rounds) +
              broken.remark()};
}

}  // namespace starling
