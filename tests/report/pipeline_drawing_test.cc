#include "report/pipeline_drawing.h"

#include <gtest/gtest.h>

#include "tests/report/count.h"

namespace starling {
namespace {

const std::vector<StageCost> kEven = {{1, 2, 0}, {1, 2, 0}};
const std::vector<std::string> kNames = {"stage 0: first", "stage 1: <last>"};

TEST(PipelineText, ShowsWhoComputesWhen) {
  const auto table = timetable(PipelineSchedule::gpipe, kEven, 2);
  // 9 seconds on 96 cells: a second is 10 or 11 of them.
  const std::string a(11, 'a'), b(11, 'b');
  const std::string text = pipeline_text(table, kNames, false);
  const std::string first = text.substr(0, text.find('\n'));
  EXPECT_EQ(first.find("stage 0: first   aaaaaaaaaaabbbbbbbbbb..."), 0u) << text;
  EXPECT_TRUE(first.ends_with("AAAAAAAAAAA")) << text;
  EXPECT_LT(first.find('B'), first.find('A')) << "the last micro-batch goes back first";
  EXPECT_EQ(first.size(), 17u + 96);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  const std::string coloured = pipeline_text(table, kNames, true);
  EXPECT_EQ(count(coloured, "\x1b[34m"), 4u);
  EXPECT_EQ(count(coloured, "\x1b[33m"), 4u);
}

TEST(PipelineText, GivesEveryTurnACell) {
  const auto table = timetable(PipelineSchedule::one_f_one_b,
                               std::vector<StageCost>{{1e-6, 1e-6, 0}, {1, 1, 0}}, 30);
  const std::string text = pipeline_text(table, kNames, false);
  const std::string first = text.substr(17, text.find('\n') - 17);
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    EXPECT_NE(first.find(letter), std::string::npos) << letter;
  }
}

TEST(PipelineSvg, HasABarATurn) {
  const auto table = timetable(PipelineSchedule::one_f_one_b, kEven, 3);
  const std::string svg = pipeline_svg("a title", table, kNames);
  EXPECT_EQ(count(svg, "fill=\"#0072b2\""), 6u + 1) << "and the key";
  EXPECT_EQ(count(svg, "fill=\"#d55e00\""), 6u + 1);
  EXPECT_NE(svg.find("stage 1: &lt;last&gt;"), std::string::npos);
  EXPECT_NE(svg.find("time of a step in s<"), std::string::npos);
  const auto fast = timetable(PipelineSchedule::one_f_one_b,
                              std::vector<StageCost>{{1e-3, 2e-3, 0}, {1e-3, 2e-3, 0}}, 3);
  EXPECT_NE(pipeline_svg("a title", fast, kNames).find("time of a step in ms"), std::string::npos);
}

}  // namespace
}  // namespace starling
