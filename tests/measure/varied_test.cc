// Flags that say what a grid goes through by itself.
#include "measure/varied.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace starling {
namespace {

TEST(LeftToGrid, AreTheSettingsThatItGoesThrough) {
  using Change = void (*)(Settings&);
  const std::pair<const char*, Change> flags[] = {
      {"lr", [](Settings& s) { s.optimizer.lr = Settings().optimizer.lr; }},  // as it is anyway
      {"momentum", [](Settings& s) { s.optimizer.momentum = 0.9; }},
      {"samples", [](Settings& s) { s.train.samples = 400; }},
      {"epochs", [](Settings& s) { s.train.epochs = 3; }},
      {"steps", [](Settings& s) { s.train.steps = 100; }},
      {"", [](Settings& s) { s.train.batch = 7; }}};
  for (const auto& [name, change] : flags) {
    MeasureOptions options;
    options.settings_over = [set = change](Settings settings) {
      set(settings);
      return settings;
    };
    const auto check = [&](std::initializer_list<std::string_view> varied) {
      return error_of([&] { check_left_to_grid(options, "some", varied); });
    };
    EXPECT_EQ(check({}), "no error") << name;
    const std::string error = check({"lr", "momentum", "samples", "epochs", "steps"});
    EXPECT_EQ(error, *name == 0 ? "no error"
                                : std::string("--") + name +
                                      " does not go with --grid some, which goes through several; "
                                      "leave it out");
  }
}

}  // namespace
}  // namespace starling
