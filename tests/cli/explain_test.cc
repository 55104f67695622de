// `starling explain`: the tables of the exchanges, number by number.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/starling_program.h"

namespace starling {
namespace {

using nlohmann::json;

const std::string kExample = "17,11,1,9/5,13,23,14/3,6,10,8/12,7,2,12";
const json kSum = {37, 37, 36, 43};
const json kSumEverywhere = {kSum, kSum, kSum, kSum};

json explained(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "explain");
  arguments.push_back("--json");
  const Ran ran = starling_program(arguments);
  EXPECT_EQ(ran.status, "exit 0") << ran.err;
  EXPECT_EQ(ran.err, "");
  return json::parse(ran.out, nullptr, false);
}

// What stands where, with a dot for a cell whose partial sum has been sent on.
std::string row(const json& iteration) {
  std::string text;
  for (const json& worker : iteration) {
    text += text.empty() ? "" : " | ";
    for (std::size_t i = 0; i < worker.size(); ++i) {
      text += i == 0 ? "" : " ";
      text += worker[i].is_null() ? "." : std::to_string(std::lround(worker[i].get<double>()));
    }
  }
  return text;
}

TEST(Explain, ShowsTheRingOfTheReviewQuestionsIterationByIteration) {
  const json result = explained({"ring", "--workers", "4", "--values", kExample});
  EXPECT_EQ(result["algorithm"], "ring");
  EXPECT_EQ(result["workers"], 4);
  // Martignano and Montesi, Review Questions 6, page 4.
  const std::vector<std::string> table = {
      "17 11 1 9 | 5 13 23 14 | 3 6 10 8 | 12 7 2 12",  //
      ". 11 1 21 | 22 . 23 14 | 3 19 . 8 | 12 7 12 .",  //
      ". 11 13 . | . . 23 35 | 25 . . 8 | 12 26 . .",   //
      ". 37 . . | . . 36 . | . . . 43 | 37 . . .",      //
      "37 37 . . | . 37 36 . | . . 36 43 | 37 . . 43",  //
      "37 37 . 43 | 37 37 36 . | . 37 36 43 | 37 . 36 43",
      "37 37 36 43 | 37 37 36 43 | 37 37 36 43 | 37 37 36 43",
  };
  ASSERT_EQ(result["iterations"].size(), table.size());
  for (std::size_t i = 0; i < table.size(); ++i) EXPECT_EQ(row(result["iterations"][i]), table[i]);
}

TEST(Explain, PrintsTheRingAsATable) {
  const Ran ran = starling_program({"explain", "ring", "--workers", "4", "--values", kExample});
  EXPECT_EQ(ran.status, "exit 0") << ran.err;
  EXPECT_EQ(
      ran.out,
      "iteration    | A                | B                | C                | D\n"
      "---------  -----  --  --  --  -----  --  --  --  -----  --  --  --  -----  --  --  --\n"
      "0          |  17  11   1   9  |   5  13  23  14  |   3   6  10   8  |  12   7   2  12\n"
      "1          |      11   1  21  |  22      23  14  |   3  19       8  |  12   7  12\n"
      "2          |      11  13      |          23  35  |  25           8  |  12  26\n"
      "3          |      37          |          36      |              43  |  37\n"
      "4          |  37  37          |      37  36      |          36  43  |  37          43\n"
      "5          |  37  37      43  |  37  37  36      |      37  36  43  |  37      36  43\n"
      "6          |  37  37  36  43  |  37  37  36  43  |  37  37  36  43  |  37  37  36  43\n");
}

TEST(Explain, ShowsPairwiseAveragingInSymbols) {
  const json rounds = explained({"pairwise", "--workers", "3", "--rounds", "2"})["rounds"];
  const json expected = {{"a", "b", "c"},
                         {"(c+a)/2", "(a+b)/2", "(b+c)/2"},
                         {"(b+2c+a)/4", "(c+2a+b)/4", "(a+2b+c)/4"}};
  EXPECT_EQ(rounds, expected);

  const Ran text = starling_program({"explain", "pairwise", "--workers", "3"});
  EXPECT_NE(text.out.find("(c+a)/2       (a+b)/2       (b+c)/2"), std::string::npos) << text.out;
}

TEST(Explain, ShowsThatTwoPassesOfThreeAreTheMeanOfAll) {
  const json rounds =
      explained({"pairwise", "--workers", "3", "--passes", "2", "--rounds", "1"})["rounds"];
  EXPECT_EQ(rounds[1], (json{"(b+c+a)/3", "(c+a+b)/3", "(a+b+c)/3"}));
}

TEST(Explain, ShortensFractions) {
  const json two = explained({"pairwise", "--workers", "2", "--rounds", "3"})["rounds"];
  EXPECT_EQ(two[3], (json{"(b+a)/2", "(a+b)/2"})) << "and not 4 of each in 8";
  const json three =
      explained({"pairwise", "--workers", "3", "--passes", "2", "--rounds", "2"})["rounds"];
  EXPECT_EQ(three[2], three[1]) << "the mean of equals";
}

TEST(Explain, ShowsPairwiseAveragingInNumbers) {
  const json iterations =
      explained({"pairwise", "--values", "0/4/8", "--rounds", "2"})["iterations"];
  EXPECT_EQ(iterations,
            (json{{{0.0}, {4.0}, {8.0}}, {{4.0}, {2.0}, {6.0}}, {{5.0}, {3.0}, {4.0}}}));

  // Whole rounds, also when a round takes several messages.
  const json two = explained(
      {"pairwise", "--values", "0,1/3,1/6,1/9,1", "--passes", "2", "--rounds", "1"})["iterations"];
  ASSERT_EQ(two.size(), 2u) << two;
  EXPECT_EQ(two[1], (json{{5.0, 1.0}, {4.0, 1.0}, {3.0, 1.0}, {6.0, 1.0}}));

  const Ran text = starling_program({"explain", "pairwise", "--values", "0/4/8", "--rounds", "1"});
  EXPECT_NE(text.out.find("1          |   4  |   2  |   6"), std::string::npos) << text.out;
}

TEST(Explain, ShowsTheTreeSumUpToTheRootAndBackDown) {
  const json iterations = explained({"tree", "--values", kExample})["iterations"];
  ASSERT_EQ(iterations.size(), 5u);
  EXPECT_EQ(row(iterations[1]), "22 24 24 23 | . . . . | 15 13 12 20 | . . . .");
  EXPECT_EQ(row(iterations[2]), "37 37 36 43 | . . . . | . . . . | . . . .");
  EXPECT_EQ(iterations[4], kSumEverywhere);
}

TEST(Explain, ShowsDoublingInTwoSteps) {
  const json iterations = explained({"doubling", "--values", kExample})["iterations"];
  ASSERT_EQ(iterations.size(), 3u);
  EXPECT_EQ(row(iterations[1]), "22 24 24 23 | 22 24 24 23 | 15 13 12 20 | 15 13 12 20");
  EXPECT_EQ(iterations[2], kSumEverywhere);
}

TEST(Explain, EndsEveryAllreduceWithTheSumEverywhere) {
  for (const char* name :
       {"naive", "tree", "scatter-reduce", "ring", "doubling", "halving-doubling", "all-to-all"}) {
    const json iterations = explained({name, "--values", kExample})["iterations"];
    EXPECT_EQ(iterations.back(), kSumEverywhere) << name;
  }
}

TEST(Explain, HasAnExampleForAnyNumberOfWorkers) {
  for (const char* workers : {"1", "2", "3", "5", "8", "64"}) {
    const json iterations = explained({"ring", "--workers", workers})["iterations"];
    EXPECT_EQ(iterations[0].size(), std::stoul(workers));
    for (const json& worker : iterations.back()) EXPECT_EQ(worker, iterations.back()[0]);
  }
}

TEST(Explain, RefusesWrongInputsInOneLine) {
  struct Wrong {
    std::vector<std::string> arguments;
    const char* culprit;
  };
  const std::vector<Wrong> all = {
      {{"ring", "--values", "1,2/x,3"}, "'x,3' is not a number"},
      {{"ring", "--values", "1,,2"}, "is not a number"},
      {{"ring", "--values", "1,2/"}, "is not a number"},
      {{"ring", "--values", "1,2;3,4"}, "';' should be a comma or a slash"},
      {{"ring", "--values", "1,2/3"}, "every worker needs the same number of values"},
      {{"ring", "--workers", "3", "--values", "1/2"}, "holds 2 workers, --workers says 3"},
      {{"pairwise", "--workers", "3", "--values", "1/2"}, "holds 2 workers, --workers says 3"},
      {{"nosuch"}, "there is no exchange 'nosuch'; there are auto, naive"},
      {{"pairwise", "--workers", "3", "--passes", "3"}, "--passes 3 needs more than 3 workers"},
      {{"pairwise", "--rounds", "60"}, "--rounds 60 makes fractions nobody can read"},
  };
  for (const Wrong& wrong : all) {
    std::vector<std::string> arguments = wrong.arguments;
    arguments.insert(arguments.begin(), "explain");
    const Ran ran = starling_program(arguments);
    EXPECT_EQ(ran.status, "exit 1") << wrong.culprit;
    EXPECT_TRUE(ran.in_one_error_line()) << ran.out << ran.err;
    EXPECT_NE(ran.err.find(wrong.culprit), std::string::npos) << ran.err;
  }
}

}  // namespace
}  // namespace starling
