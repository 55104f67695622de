#include "report/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "tests/report/count.h"

namespace starling {
namespace {

Plot plot_of(std::vector<Plot::Point> points) {
  Plot plot;
  plot.title = "a title";
  plot.x.label = "bytes";
  plot.y.label = "accuracy (%)";
  plot.series = {{"one", std::move(points)}};
  return plot;
}

std::string png_of(const std::string& svg) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "plot.png";
  write_png(svg, file);
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  return bytes;
}

TEST(Plot, HasAMarkForEveryPointAndOneInTheKey) {
  const std::string svg = plot_of({{1, 2}, {3, 4}, {5, 1}}).svg();
  EXPECT_EQ(count(svg, "<circle"), 4u);
  for (const char* words : {"a title", "bytes", "accuracy (%)", "one"}) {
    EXPECT_NE(svg.find(words), std::string::npos) << words;
  }
}

TEST(Plot, HasRoundNumbersAtItsTicks) {
  Plot plot = plot_of({{1e3, 90}, {1e9, 100}});
  plot.x.logarithmic = true;
  plot.x.format = [](double value) {
    return "10^" + std::to_string(std::lround(std::log10(value)));
  };
  const std::string svg = plot.svg();
  for (const char* tick : {">10^3<", ">10^6<", ">10^9<", ">90<", ">92<", ">100<"}) {
    EXPECT_NE(svg.find(tick), std::string::npos) << tick;
  }
}

TEST(Plot, LeavesOutWhatHasNoPlaceOnALogarithmicAxis) {
  Plot plot = plot_of({{10, 10}, {100, 0}, {0, 100}, {1000, 1000}});
  plot.x.logarithmic = plot.y.logarithmic = true;
  EXPECT_EQ(count(plot.svg(), "<circle"), 2u + 1) << "two points, and one in the key";
}

TEST(Plot, SurvivesHostileNamesAndNumbers) {
  Plot plot = plot_of({{0, 1}, {std::numeric_limits<double>::quiet_NaN(), 2}, {7, 7}});
  plot.title = "<script>alert('\"&')</script>\x01";
  plot.series[0].name = "</svg>";
  const std::string svg = plot.svg();
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_EQ(count(svg, "</svg>"), 1u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_FALSE(png_of(svg).empty());
}

TEST(Plot, OfNothingOrOfOnePointIsStillOne) {
  EXPECT_NE(Plot{}.svg().find("no data"), std::string::npos);
  EXPECT_EQ(plot_of({{2, 2}}).svg().find("nan"), std::string::npos);
  EXPECT_FALSE(png_of(plot_of({{2, 2}}).svg()).empty());
}

TEST(Plot, BecomesPixelsTwiceAsManyAsUnits) {
  const std::string png = png_of(plot_of({{1, 2}, {3, 4}}).svg());
  ASSERT_GT(png.size(), 24u);
  EXPECT_EQ(png.substr(1, 3), "PNG");
  const auto big_endian = [&](std::size_t at) {
    int value = 0;
    for (std::size_t i = 0; i < 4; ++i)
      value = value * 256 + static_cast<unsigned char>(png[at + i]);
    return value;
  };
  EXPECT_EQ(big_endian(16), 1720);
  EXPECT_EQ(big_endian(20), 1040);
}

TEST(Plot, ThatCannotBeWrittenSaysSo) {
  EXPECT_THROW(write_png(Plot{}.svg(), "/nonexistent/plot.png"), Error);
  EXPECT_THROW(write_png("this is no drawing", "never.png"), Error);
}

TEST(Plot, BarsOfSeveralSeriesStandOnOneAnother) {
  Plot plot = plot_of({{0, 3}});
  plot.series[0].kind = Plot::Kind::bars;
  plot.series.push_back({"two", {{0, 1}}, Plot::Kind::bars});
  const std::string svg = plot.svg();
  // Each bar is a rect of its own; the second one ends where the first begins.
  std::vector<double> tops, heights;
  for (auto at = svg.find("<rect x="); at != std::string::npos; at = svg.find("<rect x=", at + 1)) {
    const auto number = [&](const char* name) {
      return std::stod(svg.substr(svg.find(name, at) + std::string(name).size()));
    };
    if (number(" width=\"") < 20) continue;  // in the key
    tops.push_back(number(" y=\""));
    heights.push_back(number(" height=\""));
  }
  ASSERT_EQ(tops.size(), 2u);
  EXPECT_NEAR(tops[1] + heights[1], tops[0], 0.2);
  EXPECT_NEAR(heights[0], 3 * heights[1], 0.5);
}

TEST(Plot, BarsWithLongNamesLieOneBelowTheOtherInAPictureAsHighAsTheyNeed) {
  Plot plot = plot_of({});
  plot.series[0].kind = Plot::Kind::bars;
  for (int i = 0; i < 60; ++i) {
    plot.categories.push_back("a name that is long " + std::to_string(i));
    plot.series[0].points.push_back({static_cast<double>(i), 1.0 + i});
    plot.notes.push_back({{static_cast<double>(i), 1.0 + i}, "97 %"});
  }
  const std::string svg = plot.svg();
  const auto number_behind = [&](const std::string& name, std::size_t from) {
    return std::stod(svg.substr(svg.find(name, from) + name.size()));
  };
  const double height = number_behind(" height=\"", 0);
  std::vector<double> rows;
  for (int i = 0; i < 60; ++i) {
    const auto at = svg.find(">a name that is long " + std::to_string(i) + "<");
    ASSERT_NE(at, std::string::npos) << "whole names";
    rows.push_back(number_behind(" y=\"", svg.rfind("<text", at)));
  }
  for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_GE(rows[i] - rows[i - 1], 14);
  EXPECT_LT(rows.back(), height);
  EXPECT_EQ(count(svg, "97 %"), 60u);
  // A second series begins where the first ends.
  plot.series.push_back({"two", {{0, 30}}, Plot::Kind::bars});
  const std::string two = plot.svg();
  const auto bar = [&](const std::string& fill, const std::string& name) {
    std::size_t at = two.find("fill=\"" + fill + "\"");
    at = two.rfind("<rect", at);
    return std::stod(two.substr(two.find(name, at) + name.size()));
  };
  EXPECT_NEAR(bar("#0072b2", " x=\"") + bar("#0072b2", " width=\""), bar("#d55e00", " x=\""), 0.2);
}

TEST(Plot, NamesThatAreTooLongKeepTheirEnds) {
  Plot plot = plot_of({{1, 2}});
  plot.series[0].name = "an experiment with a long name and period 16";
  const std::string svg = plot.svg();
  EXPECT_NE(svg.find("period 16<"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">an exp"), std::string::npos);
  EXPECT_EQ(svg.find("long name"), std::string::npos);
}

TEST(Plot, QuietLinesHaveNoPlaceInTheKey) {
  Plot plot;
  for (int i = 0; i < 60; ++i) {
    plot.series.push_back(
        {"line " + std::to_string(i), {{0, 1}, {1, 2.0 + i}}, Plot::Kind::line, i % 20 != 0});
  }
  const std::string svg = plot.svg();
  EXPECT_EQ(count(svg, "data-series"), 60u);
  EXPECT_EQ(count(svg, ">line "), 3u);
  EXPECT_NE(svg.find(">line 40<"), std::string::npos);
}

}  // namespace
}  // namespace starling
