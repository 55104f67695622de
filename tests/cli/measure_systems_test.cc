// `starling measure --grid systems`: every system trains, and what has been measured is kept.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/starling_program.h"

namespace starling {
namespace {

using nlohmann::json;

TEST(MeasureSystems, PutsEverySystemInOneTableAndGoesOnWhereItWasInterrupted) {
  TemporaryFolder folder;
  const std::string path = (folder.path() / "grid").string();
  const auto measured = [&] {
    const Ran ran =
        starling_program({"measure", "--grid", "systems", "--workers", "2", "--data", "synthetic",
                          "--samples", "400", "--epochs", "1", "--folder", path, "--json"},
                         300s);
    EXPECT_EQ(ran.status, "exit 0") << ran.err;
    return json::parse(ran.out, nullptr, false);
  };
  const json first = measured();
  ASSERT_TRUE(first.is_object());
  const json systems = json::parse(starling_program({"systems", "--json"}).out);
  ASSERT_EQ(first["rows"].size(), systems.size());
  for (std::size_t i = 0; i < systems.size(); ++i) {
    const json& row = first["rows"][i];
    EXPECT_EQ(row["system"], systems[i]["name"]);
    for (const char* key : {"accuracy", "train_seconds", "samples_per_second",
                            "sent_bytes_per_worker", "received_bytes_per_worker"}) {
      EXPECT_GT(row[key].get<double>(), 0) << row;
    }
  }
  // A system's own settings hold, and flags are over them.
  const std::string settings = file_text(path + "/distbelief/settings.toml");
  for (const char* line : {"optimizer = 'adagrad'", "lr = 0.02", "workers = 2", "epochs = 1.0"}) {
    EXPECT_NE(settings.find(line), std::string::npos) << line << " / " << settings;
  }

  // As if it had been interrupted in the third run.
  const std::string interrupted = path + "/" + systems[2]["name"].get<std::string>();
  std::filesystem::remove(interrupted + "/summary.json");
  const auto kept = std::filesystem::last_write_time(path + "/petuum/summary.json");
  const json second = measured();
  EXPECT_TRUE(std::filesystem::exists(interrupted + "/summary.json"));
  EXPECT_EQ(std::filesystem::last_write_time(path + "/petuum/summary.json"), kept);
  for (std::size_t i = 0; i < systems.size(); ++i) {
    if (i == 2) continue;
    EXPECT_EQ(second["rows"][i], first["rows"][i]);
  }
}

}  // namespace
}  // namespace starling
