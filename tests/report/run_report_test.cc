#include "report/run_report.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "tests/report/count.h"
#include "tests/small_files.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

class RunFolders : public testing::Test {
 protected:
  fs::path run(const std::string& name, const std::string& metrics, const std::string& network,
               const std::string& summary) {
    fs::create_directories(folder_ / name);
    std::ofstream(folder_ / name / "settings.toml") << "lr = 0.1\nmodel = '<b>&'\n";
    std::ofstream(folder_ / name / "metrics.jsonl") << metrics;
    std::ofstream(folder_ / name / "network.jsonl") << network;
    if (!summary.empty()) std::ofstream(folder_ / name / "summary.json") << summary;
    return folder_ / name;
  }
  fs::path whole_run(const std::string& name, double bytes) {
    return run(name,
               R"({"time":1,"loss":2.0}
{"time":2,"loss":1.0,"accuracy":0.5,"spread":0.1}
{"time":3,"loss":0.5,"accuracy":0.9,"spread":0.05}
)",
               R"({"time":0,"rank":0,"sent":{"weights":{"wire":0,"payload":0}}}
{"time":1,"rank":0,"sent":{"weights":{"wire":1000,"payload":900}}}
{"time":2,"rank":0,"sent":{"weights":{"wire":3000,"payload":2900}}}
)",
               fmt_summary(bytes));
  }
  static std::string fmt_summary(double bytes) {
    return R"({"strategy":"mix","workers":2,"accuracy":0.9,"train_seconds":3,"seconds":9,"samples_per_second":100,
      "waited_seconds":[1,2],"network_seconds":[0.5,0.7],"mixing":{"rounds":1410,"staleness_histogram":[5,3,1]},"wire_bytes_sent":[)" +
           std::to_string(bytes / 2) + "," + std::to_string(bytes / 2) +
           "],\"training_bytes_sent\":[" + std::to_string(bytes * 0.8) + "]}";
  }

  TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

const Figure& figure(const RunReport& report, const std::string& name) {
  return *std::ranges::find(report.figures, name, &Figure::name);
}

TEST_F(RunFolders, AreComparedWithTheBaseline) {
  const std::vector<RunData> runs = {read_run(whole_run("one", 1000)),
                                     read_run(whole_run("two", 250))};
  const std::string table = report_on(runs, 0).comparison.csv();
  EXPECT_NE(table.find("two,90.00 %,3.0 s,100,250 B,200 B,75.0 %,50 %,20 %,30 %,\"1,410\",2,mix"),
            std::string::npos)
      << table;
  EXPECT_NE(report_on(runs, 1).comparison.csv().find("1.0 KB,800 B,-300.0 %"), std::string::npos);
}

TEST_F(RunFolders, TellServersFromWorkers) {
  const std::string network = R"({"time":0,"rank":1,"sent":{}}
{"time":0,"rank":2,"sent":{}}
)";
  const auto names = [&](const std::string& name, const std::string& summary) {
    const std::vector<RunData> runs = {read_run(run(name, "", network, summary))};
    const RunReport report = report_on(runs, 0);
    std::vector<std::string> all;
    for (const auto& series : figure(report, "network-1").plot.series) all.push_back(series.name);
    return all;
  };
  EXPECT_EQ(names("ended", fmt_summary(1000)), (std::vector<std::string>{"worker 1", "server 2"}));
  EXPECT_EQ(names("cut off", ""), (std::vector<std::string>{"rank 1", "rank 2"}));
}

TEST_F(RunFolders, BecomeFiguresOfWhatTheyHold) {
  const std::vector<RunData> runs = {read_run(whole_run("one", 1000))};
  const RunReport report = report_on(runs, 0);
  const auto& accuracy = figure(report, "accuracy-time").plot.series[0].points;
  ASSERT_EQ(accuracy.size(), 2u);
  EXPECT_EQ(accuracy[1].x, 3);
  EXPECT_NEAR(accuracy[1].y, 90, 1e-9);
  const auto& over_bytes = figure(report, "accuracy-bytes").plot.series[0].points;
  EXPECT_EQ(over_bytes[0].x, 3000);
  const auto& split = figure(report, "time-split").plot.series;  // computing, moving, waiting
  EXPECT_DOUBLE_EQ(split[0].points[0].y, 1.5);
  EXPECT_DOUBLE_EQ(split[1].points[0].y, 0.6);
  EXPECT_DOUBLE_EQ(split[2].points[0].y, 0.9);
  const auto& rates = figure(report, "network-1").plot.series[0].points;
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[1].y, 2000);
  EXPECT_EQ(figure(report, "staleness-1").plot.series[0].points.size(), 3u);
  const auto& activity = figure(report, "activity").plot.series;  // in training, and beside it
  EXPECT_DOUBLE_EQ(activity[0].points[0].y, 800);
  EXPECT_DOUBLE_EQ(activity[1].points[0].y, 200);
  EXPECT_EQ(count(report.html, "<svg"), report.figures.size());
}

TEST_F(RunFolders, SixtyOfThemAreChosenFromInATable) {
  std::vector<RunData> runs;
  for (int i = 0; i < 60; ++i) {
    runs.push_back(read_run(whole_run("run-" + std::to_string(i), 1000)));
    runs.back().summary.accuracy = i == 31 ? 0.99 : 0.9;
  }
  const RunReport report = report_on(runs, 7);
  const std::string& html = report.html;
  EXPECT_EQ(count(html, "type=\"checkbox\""), 60u);
  EXPECT_EQ(count(html, " checked>"), 8u);
  const auto& lines = figure(report, "accuracy-time").plot.series;
  EXPECT_EQ(std::ranges::count(lines, false, &Plot::Series::quiet), 8);
  EXPECT_FALSE(lines[7].quiet) << "the baseline";
  EXPECT_FALSE(lines[31].quiet) << "the most accurate";
  EXPECT_TRUE(lines[59].quiet);
  EXPECT_EQ(count(html, "<details open"), 0u) << "what is of one run only is folded away";
  EXPECT_NE(html.find("now 8 of 60"), std::string::npos);
  // Below each drawing with a line a run, for those who have no room beside it.
  EXPECT_EQ(count(html, "<div class=\"names\">"), count(html, "<figure data-lines>"));
  EXPECT_EQ(count(report_on({runs[0], runs[1]}, 0).html, " checked>"), 2u);
}

TEST_F(RunFolders, OnOtherDataAreNotComparedWithoutAWord) {
  std::vector<RunData> runs = {read_run(whole_run("one", 1000)), read_run(whole_run("two", 250))};
  EXPECT_TRUE(report_on(runs, 0).remarks.empty());
  runs[0].settings = "data = 'mnist'\n";
  runs[1].settings = "data = 'synthetic'\n";
  const RunReport report = report_on(runs, 0);
  ASSERT_EQ(report.remarks.size(), 1u);
  EXPECT_NE(report.remarks[0].find("data: mnist (1 run), synthetic (1 run)"), std::string::npos);
  EXPECT_NE(report.html.find(report.remarks[0]), std::string::npos);
  EXPECT_NE(report.comparison.csv().find("250 B,200 B,-,"), std::string::npos)
      << "nothing is saved against what did something else";
}

TEST_F(RunFolders, OfHostileNamesAndValuesDoNoHarm) {
  const std::string name = "<img src=x onerror=alert(1)>";
  const std::string nasty = R"({"strategy":"<script>","workers":"many","accuracy":null,
    "wire_bytes_sent":{"a":1},"waited_seconds":["x"],"mixing":7})";
  const std::vector<RunData> runs = {
      read_run(run(name, "{\"time\":\"soon\",\"accuracy\":[]}\n[1]\n", "{\"sent\":3}\n", nasty))};
  const RunReport report = report_on(runs, 0);
  EXPECT_EQ(report.html.find("<img"), std::string::npos);
  EXPECT_EQ(count(report.html, "<script"), 1u) << "the page's own";
  EXPECT_EQ(report.html.find("<b>&'"), std::string::npos);
  EXPECT_NE(report.html.find("&lt;img"), std::string::npos);
}

TEST_F(RunFolders, WithoutDataOrCutOffInALineAreStillReported) {
  const fs::path cut = run("cut", "{\"time\":1,\"accuracy\":0.5}\n{\"time\":2,\"accu", "{\"ti", "");
  const std::vector<RunData> runs = {read_run(run("empty", "", "", "")), read_run(cut)};
  EXPECT_EQ(runs[1].metrics.size(), 1u);
  const RunReport report = report_on(runs, 0);
  EXPECT_NE(report.comparison.csv().find("cut,did not end"), std::string::npos);
  EXPECT_NE(figure(report, "network-1").plot.svg().find("no data"), std::string::npos);
}

TEST_F(RunFolders, WhoseReportHasNoSpaceKeepTheOneBefore) {
  const std::vector<RunData> runs = {read_run(whole_run("one", 1000))};
  const fs::path page = folder_ / "report" / "index.html";
  write_report(report_on(runs, 0), page.parent_path());
  const auto bytes = fs::file_size(page);
  const SmallFiles no_space(1000);
  EXPECT_THROW(write_report(report_on(runs, 0), page.parent_path()), Error);
  EXPECT_EQ(fs::file_size(page), bytes);
}

TEST_F(RunFolders, ThatAreNoneAreRefused) { EXPECT_THROW(read_run(folder_ / "nosuch"), Error); }

}  // namespace
}  // namespace starling
