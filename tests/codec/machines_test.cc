// What one machine has encoded another decodes, whatever vectors it has; and the same draws are made
// on all.
#include "tests/codec/coding.h"
#include "tests/on_every_machine.h"

namespace starling {
namespace {

TEST(Machines, ReadOneCodeAlikeAndDrawAlike) {
  using enum CodecSettings::Kind;
  for (auto kind : {threshold, top_k, random, quantized, hierarchical, sign, low_rank}) {
    for (int levels : {1, 5, 127}) {
      for (bool feedback : {true, false}) {
        for (std::size_t elements : {1, 63, 200, 1001}) {
          const CodecSettings settings{
              .kind = kind, .share = 0.1, .levels = levels, .block = 100, .feedback = feedback};
          const std::vector<float> values = heavy_tailed(elements, 1);
          const Sent here = send(settings, values);
          int machines = 0;
          on_every_machine([&] {
            ++machines;
            EXPECT_EQ(decoded(*make_codec(settings), here.code, elements), here.decoded)
                << settings;
            const Sent there = send(settings, values);
            // Sums are not rounded alike: of magnitudes, and of products with levels.
            const bool sums =
                kind == sign || kind == low_rank || (kind == hierarchical && feedback);
            if (!sums) {
              EXPECT_EQ(there.code, here.code) << settings << ", " << elements;
            }
            EXPECT_EQ(there.code.size(), here.code.size());
          });
          EXPECT_GT(machines, 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace starling
