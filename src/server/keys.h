// How a model is cut into *blocks*, each with a *key* of its own: a server holds one consecutive
// shard, and a shard is cut where the worker's buckets begin and after every `largest` elements.
// Short blocks keep several under way, so that updating one overlaps receiving the next.
#pragma once

#include <algorithm>
#include <vector>

#include "base/range.h"

namespace starling {

inline constexpr std::size_t kMaxKeys = 1 << 16;                  // each has channels of its own
inline constexpr std::size_t kLargestBlockElements = 128 * 1024;  // measured: docs/performance.md

// The largest block of a model: as above, unless that would leave too few keys for its buckets.
inline std::size_t largest_block(std::size_t elements) {
  return std::max(kLargestBlockElements, elements / (kMaxKeys / 2));
}

struct Key {
  int server;   // counted from 0
  Range range;  // where its block stands among the model's parameters
  bool operator==(const Key&) const = default;
};

// `buckets` are consecutive or not, in any order; what none of them covers is not cut further.
inline std::vector<Key> cut_into_keys(std::size_t elements, int servers,
                                      const std::vector<Range>& buckets, std::size_t largest) {
  std::vector<std::size_t> cuts;
  for (const Range& bucket : buckets) {
    cuts.push_back(bucket.begin);
    cuts.push_back(bucket.end);
  }
  std::ranges::sort(cuts);

  std::vector<Key> keys;
  for (int server = 0; server < servers; ++server) {
    const Range shard =
        part(elements, static_cast<std::size_t>(servers), static_cast<std::size_t>(server));
    for (std::size_t begin = shard.begin; begin < shard.end;) {
      std::size_t end = std::min(shard.end, begin + largest);
      const auto cut = std::ranges::upper_bound(cuts, begin);
      if (cut != cuts.end()) end = std::min(end, *cut);
      keys.push_back({server, {begin, end}});
      begin = end;
    }
  }
  return keys;
}

// The other way, for buckets that should stay whole: each goes to the server on whose shard its
// middle lies.
inline std::vector<Key> buckets_as_keys(std::size_t elements, int servers,
                                        std::vector<Range> buckets) {
  std::ranges::sort(buckets, {}, &Range::begin);
  std::vector<Key> keys;
  for (const Range& bucket : buckets) {
    const std::size_t middle = bucket.begin + bucket.size() / 2;
    keys.push_back(
        {static_cast<int>(middle * static_cast<std::size_t>(servers) / elements), bucket});
  }
  return keys;
}

}  // namespace starling
