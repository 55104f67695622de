// Which of system, file and flags is heard, and which flags are refused.
#include "cli/settings_flags.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"
#include "tests/error_of.h"

namespace starling {
namespace {

Settings settings_of(const std::string& flags) {
  CLI::App app;
  SettingsFlags parsed;
  parsed.add_to(app, SettingsFlags::Which::all);
  app.parse(flags);
  return parsed.unchecked();
}

std::string refusal_of(const std::string& flags) {
  return error_of([&] { settings_of(flags); });
}

TEST(SettingsFlags, OverruleTheFileWhichOverrulesTheSystem) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "own.toml";
  std::ofstream(file) << "period = 7\nouter_lr = 0.25\n";

  const Settings system = settings_of("--system diloco");
  EXPECT_EQ(system.mix.rule, MixingSettings::Rule::outer);
  EXPECT_EQ(system.schedule.period, 16);
  EXPECT_EQ(system.mix.outer_lr, 0.7);
  EXPECT_EQ(settings_of("--system diloco --period 3").schedule.period, 3);

  const Settings all = settings_of("--period 3 --settings " + file + " --system diloco");
  EXPECT_EQ(all.mix.rule, MixingSettings::Rule::outer) << "nobody but the system says so";
  EXPECT_EQ(all.mix.outer_lr, 0.25) << "the file's";
  EXPECT_EQ(all.schedule.period, 3) << "the flag's";
}

TEST(SettingsFlags, TakeNumbersUpToBothEndsOfTheirRange) {
  EXPECT_EQ(settings_of("--workers 1").workers, 1);
  EXPECT_EQ(settings_of("--workers 4096").workers, 4096);
  EXPECT_EQ(settings_of("--alpha 0.5").mix.alpha, 0.5);
  EXPECT_EQ(settings_of("--beta 0").mix.beta, 0);
  for (const char* flags : {"--workers 0", "--workers 4097", "--workers 99999999999"}) {
    EXPECT_EQ(refusal_of(flags),
              flags + std::string(" cannot be; it takes a whole number from 1 to 4096"));
  }
  for (const char* flags : {"--beta=-0.1", "--beta 0.51", "--beta nan", "--beta inf"}) {
    EXPECT_NE(refusal_of(flags).find(" cannot be; it takes a number from 0 to 0.5"),
              std::string::npos)
        << flags << ": " << refusal_of(flags);
  }
}

TEST(SettingsFlags, TakeNothingButANumberWhereOneIsDue) {
  for (const char* number : {"3x", "3.5", "3 4", " 3", "x3", "three", "+3", "0x3"}) {
    EXPECT_EQ(
        refusal_of(std::string("--workers '") + number + "'"),
        std::string("--workers ") + number + " cannot be; it takes a whole number from 1 to 4096");
  }
  EXPECT_NE(refusal_of("--lr 0.1.2"), "no error");
}

TEST(SettingsFlags, SwitchOnAndOff) {
  EXPECT_FALSE(settings_of("").schedule.overlap);
  EXPECT_TRUE(settings_of("--overlap").schedule.overlap);
  EXPECT_TRUE(settings_of("--overlap=true").schedule.overlap);
  EXPECT_FALSE(settings_of("--overlap=false").schedule.overlap);
  EXPECT_EQ(refusal_of("--overlap=maybe"), "--overlap maybe cannot be; it is true or false");
  ASSERT_TRUE(settings_of("--system deeplearning4j").mix.codec.adaptive);
  EXPECT_FALSE(settings_of("--system deeplearning4j --codec-adaptive=false").mix.codec.adaptive);
}

}  // namespace
}  // namespace starling
