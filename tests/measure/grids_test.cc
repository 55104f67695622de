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
