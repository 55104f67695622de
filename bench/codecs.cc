// How fast each codec encodes and decodes, in bytes of floats a second, on one core:
//
//   build/release/bin/bench-codecs
//   build/release/bin/bench-codecs --benchmark_filter='quantized'
//
// Encoding includes copying the vector, as the codec leaves the rest in it.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "base/random.h"
#include "codec/codec.h"

namespace starling {
namespace {

constexpr std::size_t kElements = 1 << 20;  // 4 MB: beyond a core's own caches

// Heavy-tailed, as gradients are: normal, times what differs by a factor of ten and more.
const std::vector<float>& gradient() {
  static const std::vector<float> values = [] {
    Random random{1};
    std::vector<float> drawn(kElements);
    for (float& value : drawn) {
      value = static_cast<float>(1e-3 * random.normal() * std::exp(random.normal()));
    }
    return drawn;
  }();
  return values;
}

void encode(benchmark::State& state, const CodecSettings& settings) {
  const auto codec = make_codec(settings);
  std::vector<float> values = gradient();
  std::vector<std::byte> code;
  for (auto _ : state) {
    std::ranges::copy(gradient(), values.begin());
    codec->encode(values, code);
    benchmark::DoNotOptimize(code.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kElements * 4));
  state.counters["bits"] = 8 * static_cast<double>(code.size()) / kElements;
}

void decode(benchmark::State& state, const CodecSettings& settings) {
  const auto codec = make_codec(settings);
  std::vector<float> values = gradient(), into(kElements);
  std::vector<std::byte> code;
  codec->encode(values, code);
  for (auto _ : state) {
    codec->add_decoded(code, into);
    benchmark::DoNotOptimize(into.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kElements * 4));
}

void add(const std::string& name, const CodecSettings& settings) {
  benchmark::RegisterBenchmark(("encode/" + name).c_str(), encode, settings);
  benchmark::RegisterBenchmark(("decode/" + name).c_str(), decode, settings);
}

void add_all() {
  using enum CodecSettings::Kind;
  for (auto kind : {raw, half, bfloat, threshold}) add(std::string(name_of(kind)), {.kind = kind});
  for (double share : {0.001, 0.01, 0.1}) {
    add(fmt::format("top-k/{}", share), {.kind = top_k, .share = share});
    add(fmt::format("random/{}", share), {.kind = random, .share = share});
  }
  for (int levels : {1, 7, 127}) {
    for (bool feedback : {true, false}) {
      const char* how = feedback ? "nearest" : "drawn";
      add(fmt::format("quantized/{}/{}", levels, how),
          {.kind = quantized, .levels = levels, .feedback = feedback});
      add(fmt::format("hierarchical/{}/{}", levels, how),
          {.kind = hierarchical, .levels = levels, .feedback = feedback});
    }
  }
  add("sign", {.kind = sign});
  for (int rank : {1, 4}) add(fmt::format("low-rank/{}", rank), {.kind = low_rank, .rank = rank});
}

}  // namespace
}  // namespace starling

int main(int count, char** words) {
  starling::add_all();
  benchmark::Initialize(&count, words);
  if (benchmark::ReportUnrecognizedArguments(count, words)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
