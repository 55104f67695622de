#include "topology/cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "base/error.h"

namespace starling {

double stage_seconds(std::span<const LayerCost> layers, Range stage, const StageLink& link) {
  double seconds = 0;
  for (std::size_t i = stage.begin; i < stage.end; ++i) seconds += layers[i].seconds();
  const bool last = stage.end == layers.size();
  return last ? seconds : seconds + 2 * link.seconds(layers[stage.end - 1].output_bytes);
}

namespace {

bool has_parameters(std::span<const LayerCost> layers) {
  return std::ranges::any_of(layers,
                             [](const LayerCost& each) { return each.parameter_bytes > 0; });
}

}  // namespace

// Dynamic programming over the list: the best cut of the first `end` layers into s stages is the
// best cut of the first `begin` into s - 1, and a stage of those between.
std::vector<Range> cut_layers(std::span<const LayerCost> layers, int stages,
                              const StageLink& link) {
  const std::size_t n = layers.size();
  const auto s = static_cast<std::size_t>(stages);
  if (s > n) {
    throw Error(fmt::format("{} layers cannot be cut into {} stages", n, s),
                fmt::format("use --pipeline {} at the most, or a model with more layers", n));
  }
  constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Best {
    double slowest = kNever;
    std::size_t begin = 0;  // of the last stage
  };
  std::vector<std::vector<Best>> best(s + 1, std::vector<Best>(n + 1));
  best[0][0].slowest = 0;
  for (std::size_t stage = 1; stage <= s; ++stage) {
    for (std::size_t end = stage; end <= n; ++end) {
      for (std::size_t begin = stage - 1; begin < end; ++begin) {
        if (!has_parameters(layers.subspan(begin, end - begin))) continue;  // nothing to train
        const double slowest =
            std::max(best[stage - 1][begin].slowest, stage_seconds(layers, {begin, end}, link));
        if (slowest < best[stage][end].slowest) best[stage][end] = {slowest, begin};
      }
    }
  }
  if (best[s][n].slowest == kNever) {
    throw Error(
        fmt::format("{} layers cannot be cut into {} stages that have parameters each", n, s),
        "use fewer stages");
  }
  std::vector<Range> cut(s);
  for (std::size_t stage = s, end = n; stage > 0; --stage) {
    cut[stage - 1] = {best[stage][end].begin, end};
    end = cut[stage - 1].begin;
  }
  return cut;
}

std::string as_written(const std::vector<Range>& cut) {
  std::string text;
  for (const Range& stage : cut) {
    text += fmt::format("{}{}-{}", text.empty() ? "" : ",", stage.begin, stage.end - 1);
  }
  return text;
}

std::vector<Range> cut_as_written(const std::string& text, std::size_t layers) {
  const auto refuse = [&](const std::string& why) {
    throw Error(fmt::format("stages = '{}': {}", text, why),
                fmt::format("write all layers from 0 to {} in order, like 0-1,2-{}", layers - 1,
                            layers - 1));
  };
  std::vector<Range> cut;
  std::size_t next = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    std::size_t first = 0, last = 0;
    const char* const end = part.data() + part.size();
    auto [behind, error] = std::from_chars(part.data(), end, first);
    last = first;
    if (error == std::errc() && behind != end && *behind == '-') {
      std::tie(behind, error) = [&] {
        const auto result = std::from_chars(behind + 1, end, last);
        return std::pair(result.ptr, result.ec);
      }();
    }
    if (error != std::errc() || behind != end) refuse(fmt::format("'{}' is no range", part));
    if (first != next || last < first) refuse(fmt::format("layer {} comes next", next));
    if (last >= layers) refuse(fmt::format("there is no layer {}", last));
    cut.push_back({first, last + 1});
    next = last + 1;
  }
  if (next < layers) refuse(fmt::format("layer {} is in no stage", next));
  return cut;
}

}  // namespace starling
