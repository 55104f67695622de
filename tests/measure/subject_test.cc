// What is trained where no flag says otherwise, and in which measure.
#include "measure/subject.h"

#include <gtest/gtest.h>

#include "measure/chosen.h"
#include "measure/reached.h"
#include "tests/error_of.h"

namespace starling {
namespace {

class SubjectTest : public testing::Test {
 protected:
  SubjectTest() {
    options_.settings_over = [this](Settings settings) {
      if (flags_) flags_(settings);
      return settings;
    };
  }
  void text() {
    flags_ = [](Settings& settings) {
      settings.train.model = "char-gpt";
      settings.train.data = TrainSettings::Data::kjv;
    };
  }

  std::function<void(Settings&)> flags_;
  MeasureOptions options_;
};

constexpr Recipe kEvery16th = {"every-16th", "strategy = 'pairwise'; period = 16; lr = 0.3"};

TEST_F(SubjectTest, IsARecipeOverWhatIsSensibleUnderWhatFlagsSay) {
  const Settings images = Subject(options_).settings_of(kEvery16th, 3);
  EXPECT_EQ(images.workers, 3);
  EXPECT_EQ(images.schedule.period, 16);
  EXPECT_EQ(images.optimizer.lr, 0.3);
  EXPECT_EQ(images.train.epochs, 5);

  text();
  const Settings recipe = Subject(options_).settings_of(kEvery16th, 4);
  EXPECT_EQ(recipe.optimizer.kind, OptimizerSettings::Kind::adamw);
  EXPECT_EQ(recipe.optimizer.lr, 0.3) << "its own";
  EXPECT_EQ(recipe.train.steps, 600);
  check_settings(recipe);

  flags_ = [](Settings& settings) { settings.optimizer.lr = 0.7; };
  EXPECT_EQ(Subject(options_).settings_of(kEvery16th, 4).optimizer.lr, 0.7);
}

TEST_F(SubjectTest, HasAllSystemsLearnTextByTheSameOptimizer) {
  text();
  const Subject subject(options_);
  for (const System& system : named_systems()) {
    const Settings settings = subject.settings_of(system, 4);
    EXPECT_EQ(settings.optimizer.kind, OptimizerSettings::Kind::adamw) << system.name;
    EXPECT_EQ(settings.optimizer.lr, 4e-3) << system.name;
    EXPECT_EQ(error_of([&] { check_settings(settings); }), "no error") << system.name;
  }
  flags_ = {};
  const Subject images(options_);
  EXPECT_EQ(images.settings_of(find_system("distbelief"), 4).optimizer.lr, 0.02) << "its own";
}

// Epochs are shorter for more workers.
TEST_F(SubjectTest, WarmsUpForAsManyStepsWithAnyNumberOfWorkers) {
  text();
  const Subject subject(options_);
  const double four = subject.settings_of(kEvery16th, 4).lr_schedule.warmup_epochs;
  EXPECT_NEAR(four, 0.0157, 1e-4);
  EXPECT_NEAR(subject.settings_of(kEvery16th, 8).lr_schedule.warmup_epochs, 2 * four, 1e-9);
}

TEST_F(SubjectTest, IsMeasuredByAccuracyOrBitsPerCharacter) {
  RunSummary run;
  run.accuracy = 0.9;
  run.loss = 2.1;
  const Subject images(options_);
  EXPECT_EQ(images.quality(run), 0.9);
  EXPECT_TRUE(images.is_better(0.9, 0.8));
  EXPECT_FALSE(images.reached_by(run));
  EXPECT_EQ(describe(images.goal(), images), "97 %");
  EXPECT_EQ(images.text(Sample{{0.9}}), "90.00 %");

  text();
  const Subject characters(options_);
  EXPECT_EQ(characters.quality(run), 2.1);
  EXPECT_TRUE(characters.is_better(2.1, 2.2));
  EXPECT_TRUE(characters.reached_by(run));
  EXPECT_EQ(describe(characters.goal(), characters), "2.2 bits per character");
  EXPECT_EQ(characters.text(Sample{{2, 2.2}}), "2.100 ± 0.141");
}

TEST_F(SubjectTest, StopsAtItsGoalOrAtThatOfAFlag) {
  const Subject subject(options_);
  Settings settings = subject.settings_of(kEvery16th, 4);
  subject.race(settings);
  EXPECT_EQ(settings.train.until, "accuracy=0.97");
  EXPECT_EQ(settings.train.evaluate_every, 0.05);
  flags_ = [](Settings& flagged) {
    flagged.train.until = "accuracy=0.5";
    flagged.train.evaluate_every = 0.5;
  };
  subject.race(settings);
  EXPECT_EQ(settings.train.until, "accuracy=0.5");
  EXPECT_EQ(settings.train.evaluate_every, 0.5);
}

TEST_F(SubjectTest, IsReachedByThoseSeedsThatReachIt) {
  const Subject subject(options_);
  RunSummary good, bad;
  good.accuracy = 0.98;
  good.train_seconds = 3;
  good.steps = 10;
  bad.accuracy = 0.5;
  bad.train_seconds = 100;
  bad.steps = 90;
  const auto seconds = [](double mean, double) { return fmt::format("{} s", mean); };
  const Reached half(subject, {good, bad});
  EXPECT_EQ(half.count(), 1u);
  EXPECT_EQ(half.mean(&Reached::seconds), 3);
  EXPECT_EQ(half.all_steps.mean(), 50);
  EXPECT_EQ(half.text(half.seconds, seconds), "3 s (1 of 2)");
  RunSummary moved_on = bad;  // after an evaluation had found the goal
  moved_on.goal_step = 80;
  EXPECT_EQ(Reached(subject, {good, moved_on}).count(), 2u);
  const Reached none(subject, {bad});
  EXPECT_EQ(none.text(none.seconds, seconds), "did not get there");
  EXPECT_EQ(none.mean(&Reached::steps), std::nullopt);
  const Reached all(subject, {good});
  EXPECT_EQ(all.text(all.seconds, seconds), "3 s");
}

TEST(Chosen, AreThoseThatAreNamed) {
  const std::vector<Recipe> all = {{"a", ""}, {"b", ""}, {"c", ""}};
  EXPECT_EQ(chosen(all, {}).size(), 3u);
  const auto two = chosen(all, {"c", "a"});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_STREQ(two[0].name, "a");
  const std::string error = error_of([&] { chosen(all, {"a", "d"}); });
  EXPECT_NE(error.find("'d'"), std::string::npos) << error;
  EXPECT_NE(error.find("a, b, c"), std::string::npos) << error;
}

}  // namespace
}  // namespace starling
