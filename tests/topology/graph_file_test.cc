#include "topology/graph_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "base/temporary_folder.h"
#include "tests/topology/heard.h"

namespace starling {
namespace {

Heard parsed(const std::string& text, int size) { return heard(parse_graph(text, "edges", size)); }

std::string refusal(const std::string& text, int size) {
  try {
    parse_graph(text, "edges", size);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ParseGraph, TakesEdgesInBothDirectionsOrOne) {
  EXPECT_EQ(parsed("0 1\n1 2\n", 3), (Heard{{1}, {0, 2}, {1}}));
  EXPECT_EQ(parsed("0 -> 1\n1 -> 2\n2 -> 0\n", 3), (Heard{{2}, {0}, {1}}));
  EXPECT_EQ(parsed("0->1\n1\t->2\n2-> 0", 3), (Heard{{2}, {0}, {1}}));
}

TEST(ParseGraph, SkipsCommentsAndBlanks) {
  EXPECT_EQ(parsed("# racks\n\n  0 1  # the link\r\n\t\n#", 2), (Heard{{1}, {0}}));
}

TEST(ParseGraph, TakesAnEdgeOnceHoweverOftenItIsThere) {
  EXPECT_EQ(parsed("1 0\n0 1\n0 -> 1\n0 1\n1 2\n02 01", 3), (Heard{{1}, {0, 2}, {1}}));
}

TEST(ParseGraph, ASingleWorkerNeedsNoEdges) {
  EXPECT_EQ(parsed("", 1), Heard(1));
  EXPECT_EQ(
      refusal("0 1", 1),
      "edges joins 2 workers, 0 to 1, but there are 1; use --workers 2, or a graph file for 1");
}

TEST(ParseGraph, RefusesAGraphOfAnotherNumberOfWorkers) {
  EXPECT_EQ(
      refusal("0 1\n\n1 5\n5 2", 4),
      "edges joins 6 workers, 0 to 5, but there are 4; use --workers 6, or a graph file for 4");
  EXPECT_EQ(
      refusal("0 1\n1 2", 4),
      "edges joins 3 workers, 0 to 2, but there are 4; use --workers 3, or a graph file for 4");
  EXPECT_NE(refusal("2147483647 1", 4).find("joins 2147483648 workers"), std::string::npos);
  EXPECT_NE(refusal("99999999999999999999 1", 4).find("is not an edge"), std::string::npos);
}

TEST(ParseGraph, RefusesAnEdgeToOneself) {
  EXPECT_EQ(refusal("0 1\n1 -> 1", 2),
            "edges:2: worker 1 is joined to itself; take the line out, everybody hears itself "
            "anyway");
}

TEST(ParseGraph, RefusesGarbageAndShowsIt) {
  for (const std::string garbage : {"0", "0 ->", "-> 1", "0 1 2", "0 - 1", "0 <-> 1", "-1 0",
                                    "+1 0", "0 1.5", "a b", "0, 1", "0 > 1", "0 -> -> 1"}) {
    EXPECT_EQ(refusal("0 1\n" + garbage + "\n", 2),
              "edges:2: '" + garbage +
                  "' is not an edge; write '0 1' for both ways or '0 -> 1' where 1 hears 0");
  }
}

TEST(ParseGraph, ShowsHostileLinesShortAndPrintable) {
  const std::string shown = refusal(std::string("\0\x1b[31m\xff", 7) + std::string(9999, 'x'), 2);
  EXPECT_EQ(shown.find("edges:1: '??[31m?xxx"), 0u) << shown;
  EXPECT_LT(shown.size(), 200u);
  const std::string digits = refusal(std::string(99999, '9') + " 0", 2);
  EXPECT_LT(digits.size(), 200u) << digits;
}

TEST(ParseGraph, NamesAWorkerThatCannotBeReached) {
  EXPECT_EQ(refusal("0 1\n2 3\n", 4),
            "edges: worker 2 never hears of worker 0, not even over others; add edges that lead "
            "from 0 to 2");
  EXPECT_EQ(refusal("0 1\n2 -> 1\n", 3),
            "edges: worker 2 never hears of worker 0, not even over others; add edges that lead "
            "from 0 to 2");
  EXPECT_EQ(refusal("0 1\n1 -> 2\n", 3),
            "edges: worker 0 never hears of worker 2, not even over others; add edges that lead "
            "from 2 to 0");
  EXPECT_NE(refusal("", 2), "");
}

// Either a graph or an Error of one line, whatever the bytes.
TEST(ParseGraph, SurvivesAnyBytes) {
  Random random{7};
  const std::string alphabet = "0123 \t\r\n\n->#x\xff";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::uint64_t length = random.below(24); length > 0; --length) {
      text += alphabet[random.below(alphabet.size())];
    }
    const std::string refused = refusal(text, 1 + static_cast<int>(random.below(4)));
    EXPECT_EQ(refused.find_first_of("\n\r"), std::string::npos) << refused;
  }
}

class GraphFile : public ::testing::Test {
 protected:
  std::string refusal(const std::filesystem::path& file) {
    try {
      read_graph_file(file, 4);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(GraphFile, IsReadByItsName) {
  std::ofstream(folder_ / "edges") << "0 1\n1 2 # two hops\n";
  EXPECT_EQ(heard(read_graph_file(folder_ / "edges", 3)), (Heard{{1}, {0, 2}, {1}}));
  EXPECT_EQ(
      heard(make_graph({.kind = GraphSettings::Kind::file, .size = 3, .file = folder_ / "edges"})),
      (Heard{{1}, {0, 2}, {1}}));
}

TEST_F(GraphFile, ErrorsNameFileAndLine) {
  std::ofstream(folder_ / "edges") << "0 1\n1 7\n";
  EXPECT_EQ(
      refusal(folder_ / "edges"),
      (folder_ / "edges").string() +
          " joins 8 workers, 0 to 7, but there are 4; use --workers 8, or a graph file for 4");
}

TEST_F(GraphFile, RefusesWhatCannotBeRead) {
  EXPECT_EQ(refusal(folder_ / "none"), "the graph file " + (folder_ / "none").string() +
                                           " is missing; it holds one edge a line, e.g. '0 1'");
  EXPECT_NE(refusal(folder_).find("is not a regular file"), std::string::npos);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_NE(refusal(folder_ / "pipe").find("is not a regular file"), std::string::npos);
}

TEST_F(GraphFile, HasALimit) {
  std::ofstream(folder_ / "edges") << "0 1\n1 2\n2 3\n";
  std::filesystem::resize_file(folder_ / "edges", (16 << 20) + 1);
  EXPECT_EQ(refusal(folder_ / "edges"), "the graph file " + (folder_ / "edges").string() +
                                            " has more than 16 MB; it should hold each edge once");
  std::ofstream(folder_ / "long") << std::string((16 << 20) - 12, '\n') << "0 1\n1 2\n2 3\n";
  EXPECT_EQ(refusal(folder_ / "long"), "");
}

}  // namespace
}  // namespace starling
