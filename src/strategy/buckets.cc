#include "strategy/buckets.h"

#include <limits>

#include "strategy/registry.h"

namespace starling {

std::vector<Bucket> make_buckets(Replica replica, std::span<const Range> parameters,
                                 std::size_t full) {
  std::vector<Bucket> buckets;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    if (buckets.empty() || buckets.back().range.size() >= full) {
      Bucket& bucket = buckets.emplace_back();
      bucket.index = static_cast<int>(buckets.size() - 1);
      bucket.range = parameters[i];
      bucket.parameters = {i, i + 1};
    }
    buckets.back().range.begin = parameters[i].begin;
    buckets.back().parameters.begin = i;
  }
  for (Bucket& bucket : buckets) {
    bucket.gradients = replica.gradients.subspan(bucket.range.begin, bucket.range.size());
    bucket.weights = replica.weights.subspan(bucket.range.begin, bucket.range.size());
  }
  return buckets;
}

std::size_t full_bucket(const Settings& settings) {
  if (wants_one_bucket(settings)) return std::numeric_limits<std::size_t>::max();
  if (settings.server.factors) return 0;  // they are of one parameter
  return static_cast<std::size_t>(settings.bucket_kb) * 1000 / sizeof(float);
}

std::vector<Range> ranges_of(std::span<const Bucket> buckets) {
  std::vector<Range> ranges;
  for (const Bucket& bucket : buckets) ranges.push_back(bucket.range);
  return ranges;
}

}  // namespace starling
