#include "exchange/neighbours.h"

#include <optional>
#include <vector>

#include "exchange/segments.h"
#include "math/vector_math.h"

namespace starling {

Task<> weighted_sum(Group group, Channel channel, std::span<float> values, float own_weight,
                    std::span<const int> told, std::span<const Heard> heard) {
  const std::size_t count = segments(values);
  const std::size_t landing = std::min(kSegmentBytes / sizeof(float), values.size());
  auto scratch = group.lend<float>(landing * kWindow * heard.size());
  std::vector<std::optional<Receive>> receives(kWindow * heard.size());
  std::vector<std::optional<Send>> sends(kWindow * told.size());

  const auto place = [&](std::size_t i, std::size_t from) {
    const std::size_t slot = i % kWindow * heard.size() + from;
    return scratch.span().subspan(slot * landing, segment(Vector(values), i).size());
  };
  const auto post = [&](std::size_t i) {
    if (i >= count) return;
    for (std::size_t from = 0; from < heard.size(); ++from) {
      receives[i % kWindow * heard.size() + from].emplace(group, heard[from].rank, channel,
                                                          writable_bytes(place(i, from)));
    }
    for (std::size_t to = 0; to < told.size(); ++to) {
      sends[i % kWindow * told.size() + to].emplace(group, told[to], channel,
                                                    segment(ConstVector(values), i).bytes());
    }
  };

  for (std::size_t i = 0; i < kWindow; ++i) post(i);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t from = 0; from < heard.size(); ++from) {
      Receive& arrival = *receives[i % kWindow * heard.size() + from];
      co_await arrival;
    }
    for (std::size_t to = 0; to < told.size(); ++to) {
      Send& departure = *sends[i % kWindow * told.size() + to];
      co_await departure;  // before its memory changes
    }
    const auto sum = segment(Vector(values), i).as<float>();
    if (own_weight != 1) scale(sum, own_weight);
    for (std::size_t from = 0; from < heard.size(); ++from) {
      subtract_scaled(sum, place(i, from), -heard[from].weight);
    }
    post(i + kWindow);
  }
}

}  // namespace starling
