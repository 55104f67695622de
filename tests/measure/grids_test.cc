// What a grid leaves behind, whatever was measured.
#include "measure/grids.h"

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "tests/process.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

MeasuredGrid two_rows(const MeasureOptions& options) {
  Table table({"who", "time"});
  table.add({"hare", "1 s"});
  table.add({"tortoise", std::string(name_of(options.settings_over({}).strategy))});
  return {.table = table,
          .rows = {{{"who", "hare"}}, {{"who", "tortoise"}}},
          .headline = "a race",
          .remarks = "Slow and steady."};
}

constexpr Grid kRace = {.name = "fable",
                        .measure = two_rows,
                        .takes_settings = true,
                        .takes_workers = false,
                        .takes_slow = false};

TEST(Grids, LeaveTheirTableInThreeForms) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "grid";
  GridProgress progress(kRace.name);
  MeasureOptions options;
  options.folder = folder;
  options.progress = &progress;
  options.settings_over = [](Settings settings) {
    settings.strategy = StrategyKind::single;
    return settings;
  };
  const MeasuredGrid measured = measure_and_save(kRace, options);
  EXPECT_EQ(file_text(folder / "table.md"), measured.markdown());
  EXPECT_EQ(file_text(folder / "table.csv"), "who,time\nhare,1 s\ntortoise,single\n");
  EXPECT_EQ(nlohmann::json::parse(file_text(folder / "table.json")), measured.rows);
  EXPECT_FALSE(fs::exists(folder / "plot.svg")) << "there was nothing to draw";
  EXPECT_FALSE(fs::exists(folder / "report")) << "nothing was trained";
}

TEST(Grids, LeaveFurtherTablesAndDrawingsUnderTheirOwnNames) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "grid";
  GridProgress progress(kRace.name);
  MeasureOptions options;
  options.folder = folder;
  options.progress = &progress;
  options.settings_over = [](Settings settings) { return settings; };
  Grid grid = kRace;
  grid.measure = [](const MeasureOptions& asked) {
    MeasuredGrid measured = two_rows(asked);
    MeasuredGrid::Part part{
        .name = "moral", .headline = "What we learn", .table = Table({"moral"})};
    part.table.add({"run"});
    part.rows.push_back({{"moral", "run"}});
    part.plot.emplace();
    part.plot->categories = {"one"};
    part.plot->series = {{"moral", {{0, 1}}, Plot::Kind::bars}};
    measured.parts.push_back(part);
    return measured;
  };
  const MeasuredGrid measured = measure_and_save(grid, options);
  EXPECT_EQ(file_text(folder / "moral.md"), "What we learn\n\n| moral |\n| --- |\n| run |\n");
  EXPECT_EQ(file_text(folder / "moral.csv"), "moral\nrun\n");
  EXPECT_EQ(nlohmann::json::parse(file_text(folder / "moral.json")), measured.parts[0].rows);
  EXPECT_TRUE(fs::exists(folder / "moral.svg"));
  EXPECT_TRUE(fs::exists(folder / "moral.png"));
  EXPECT_TRUE(fs::exists(folder / "table.md"));
  EXPECT_FALSE(fs::exists(folder / "plot.svg")) << "that is the first table's";
  EXPECT_TRUE(measured.text().ends_with("What we learn\n\nmoral\n-----\nrun\n\n"))
      << measured.text();
}

TEST(Grids, HaveAFolderForEachModelDataAndLab) {
  MeasureOptions options;
  Settings flagged;
  options.settings_over = [&](const Settings&) { return flagged; };
  const Grid& grid = kGrids[0];
  EXPECT_EQ(default_folder(grid, options), "runs/measure-paper");
  flagged.train.model = "char-gpt";
  flagged.train.data = TrainSettings::Data::kjv;
  EXPECT_EQ(default_folder(grid, options), "runs/measure-paper-char-gpt-kjv");
  flagged.train.model = "models/mine.pt";
  flagged.train.data = TrainSettings().data;
  options.lab = "1gbit";
  EXPECT_EQ(default_folder(grid, options), "runs/measure-paper-mine.pt-1gbit");
}

TEST(Grids, AreHeadlineTableAndRemarksToWhoReadsThem) {
  MeasureOptions options;
  options.settings_over = [](Settings settings) { return settings; };
  MeasuredGrid measured = two_rows(options);
  EXPECT_TRUE(measured.text().starts_with("a race\n\nwho")) << measured.text();
  EXPECT_TRUE(measured.text().ends_with("\n\nSlow and steady.\n\n")) << measured.text();
  EXPECT_TRUE(measured.markdown().starts_with("a race\n\n| who")) << measured.markdown();
  EXPECT_TRUE(measured.markdown().ends_with("|\n\nSlow and steady.\n")) << measured.markdown();
  measured.headline = measured.remarks = "";
  EXPECT_EQ(measured.text(), measured.table.text() + "\n");
  EXPECT_EQ(measured.markdown(), measured.table.markdown());
}

}  // namespace
}  // namespace starling
