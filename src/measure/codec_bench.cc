#include "measure/codec_bench.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "base/units.h"
#include "codec/codec.h"
#include "measure/machine.h"

namespace starling {

namespace {

using nlohmann::json;

constexpr std::size_t kMostElements = std::size_t{1} << 30;

std::vector<float> read_gradient(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) throw Error(fmt::format("{} cannot be read: {}", path, error.message()));
  if (bytes == 0 || bytes % sizeof(float) != 0 || bytes / sizeof(float) > kMostElements) {
    throw Error(fmt::format("{} has {} bytes, which are no float32s", path, bytes),
                fmt::format("give a file of 1 to {} of them, as they are in memory",
                            format_count(static_cast<double>(kMostElements))));
  }
  std::vector<float> values(bytes / sizeof(float));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(bytes));
  if (!file) throw Error(fmt::format("{} cannot be read", path));
  for (const float value : values) {
    if (!std::isfinite(value)) throw Error(fmt::format("{} has infinities or NaNs", path));
  }
  return values;
}

double squared_length(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

// Of this process: what others do on the machine does not count.
double processor_seconds() {
  std::timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::size_t bytes_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

struct Contestant {
  std::string name;
  CodecSettings settings;
};

std::vector<Contestant> contestants(double tau, double unit) {
  using enum CodecSettings::Kind;
  const CodecSettings by_threshold{
      .kind = threshold,
      .threshold = std::clamp(tau * unit, kSmallestThreshold, kLargestThreshold)};
  std::vector<Contestant> all = {{"raw", {.kind = raw}},
                                 {"half", {.kind = half}},
                                 {"bfloat", {.kind = bfloat}},
                                 {fmt::format("threshold {:g}", tau), by_threshold},
                                 {"top-k 1 %", {.kind = top_k, .share = 0.01}},
                                 {"top-k 0.1 %", {.kind = top_k, .share = 0.001}},
                                 {"random 1 %", {.kind = random, .share = 0.01}},
                                 {"quantized 7", {.kind = quantized, .levels = 7}},
                                 {"quantized 1", {.kind = quantized, .levels = 1}},
                                 {"hierarchical 7", {.kind = hierarchical, .levels = 7}},
                                 {"hierarchical 1", {.kind = hierarchical, .levels = 1}},
                                 {"sign", {.kind = sign}},
                                 {"low-rank 4", {.kind = low_rank, .rank = 4}}};
  for (std::size_t i : {3, 4, 7, 8}) {
    all.push_back(all[i]);
    all.back().name += ", zstd";
    all.back().settings.entropy = true;
  }
  return all;
}

}  // namespace

std::vector<float> drawn_update(std::size_t elements, std::uint64_t seed) {
  Random random{seed};
  std::vector<float> values(elements);
  for (float& value : values) {
    value = static_cast<float>(1e-4 * random.normal() * std::exp(1.5 * random.normal()));
  }
  return values;
}

CodecCost cost_of(const CodecSettings& settings, const CodecBench& bench,
                  const std::vector<float>& update) {
  CodecCost cost;
  std::vector<float> values(update.size()), into(update.size());
  std::vector<std::byte> code;
  const std::size_t before = bytes_in_use();
  const auto codec = make_codec(settings, {.seed = bench.seed});
  for (int round = 0; round < bench.rounds; ++round) {
    std::ranges::copy(update, values.begin());
    const double begin = processor_seconds();
    codec->encode(values, code);
    const double middle = processor_seconds();
    codec->add_decoded(code, into);
    const double end = processor_seconds();
    cost.encode_seconds = std::min(cost.encode_seconds, middle - begin);
    cost.decode_seconds = std::min(cost.decode_seconds, end - middle);
  }
  cost.bytes = code.size();
  const std::size_t grown = bytes_in_use() - before;
  cost.memory_bytes = grown - std::min(grown, code.capacity());
  cost.left = squared_length(values) / squared_length(update);
  return cost;
}

BenchResult bench_codecs(const CodecBench& bench) {
  const std::vector<float> update = bench.gradient.empty()
                                        ? drawn_update(bench.elements, bench.seed)
                                        : read_gradient(bench.gradient);
  const double elements = static_cast<double>(update.size()), bytes = 4 * elements;
  const double unit = std::sqrt(squared_length(update) / elements);
  if (unit == 0) throw Error(fmt::format("{} has zeros only", bench.gradient));
  Table table({"codec", "sent", "of raw", "bits an element", "encode", "decode", "memory", "left"});
  json rows = json::array();
  for (const auto& [name, settings] : contestants(bench.threshold, unit)) {
    const CodecCost cost = cost_of(settings, bench, update);
    const double sent = static_cast<double>(cost.bytes);
    const double memory = static_cast<double>(cost.memory_bytes) / elements;
    rows.push_back({{"codec", name},
                    {"bytes", cost.bytes},
                    {"encode_seconds", cost.encode_seconds},
                    {"decode_seconds", cost.decode_seconds},
                    {"memory_bytes", cost.memory_bytes},
                    {"left", cost.left}});
    const auto speed = [&](double seconds) {
      return fmt::format("{:.1f} ms, {:.1f} GB/s", seconds * 1e3, bytes / seconds / 1e9);
    };
    table.add({name, format_bytes(sent), fmt::format("{:.2f} %", 100 * sent / bytes),
               fmt::format("{:.3f}", 8 * sent / elements), speed(cost.encode_seconds),
               speed(cost.decode_seconds), fmt::format("{:.2f} B", memory),
               fmt::format("{:.2f} %", 100 * cost.left)});
  }
  const std::string machine = machine_description();
  const std::string what =
      bench.gradient.empty() ? fmt::format("drawn from seed {}", bench.seed) : bench.gradient;
  return {
      .headline =
          fmt::format("one update of {} elements ({}), {}, on {}; fastest of {} rounds",
                      format_count(elements), format_bytes(bytes), what, machine, bench.rounds),
      .table = table,
      .remarks = fmt::format(
          "the threshold {:g} is in root mean squares of the update; encode and decode in "
          "processor "
          "time of one core, of\nthe raw bytes; memory is what the codec keeps for each element, "
          "beside the vector and the code (a residual is 4 B\nmore); left is the share of the "
          "squared length that waits in the residual",
          bench.threshold),
      .numbers = {{"machine", machine},
                  {"elements", update.size()},
                  {"threshold", bench.threshold},
                  {"rounds", bench.rounds},
                  {"rows", rows}}};
}

}  // namespace starling
