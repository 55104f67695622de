#include "measure/choice_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace starling {
namespace {

nlohmann::json row(int workers, int bytes, const char* algorithm, double seconds,
                   const char* peer = "starling") {
  return {{"workers", workers},
          {"bytes", bytes},
          {"algorithm", algorithm},
          {"median_seconds", seconds},
          {"peer", peer}};
}

TEST(ChoiceTable, HasTheFastestOfOursUpToTheMiddleBetweenTwoSizes) {
  const nlohmann::json rows = {row(4, 100, "tree", 1),     row(4, 100, "ring", 3),
                               row(4, 400, "tree", 2),     row(4, 400, "ring", 2.5),
                               row(4, 1600, "tree", 9),    row(4, 1600, "ring", 5),
                               row(2, 100, "doubling", 1), row(2, 100, "tree", 2)};
  EXPECT_EQ(choice_table(rows),
            "{2, 100, \"doubling\"},\n{4, 800, \"tree\"},\n{4, 1600, \"ring\"},\n");
}

TEST(ChoiceTable, LeavesPeersAndWhatIsNoAllreduceOut) {
  const nlohmann::json rows = {row(4, 100, "tree", 3), row(4, 100, "pairwise", 1),
                               row(4, 100, "auto", 2), row(4, 100, "ring", 1, "gloo")};
  EXPECT_EQ(choice_table(rows), "{4, 100, \"tree\"},\n");
}

}  // namespace
}  // namespace starling
