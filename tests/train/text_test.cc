#include "train/text.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace starling {
namespace {

std::string text_of(const std::vector<std::uint8_t>& places, const std::string& symbols) {
  std::string text;
  for (std::uint8_t place : places) text.push_back(symbols[place]);
  return text;
}

TEST(SplitText, TakesEveryTwentiethBlockOfFiftyLinesForValidation) {
  std::string text, train, validation;
  for (int line = 0; line < 2'130; ++line) {
    const std::string words = "line " + std::to_string(line) + "\n";
    text += words;
    (line / 50 % 20 == 19 ? validation : train) += words;
  }
  const TextSplit split = split_text(text);
  EXPECT_EQ(split.symbols, "\n 0123456789eiln");
  EXPECT_EQ(text_of(split.train, split.symbols), train);
  EXPECT_EQ(text_of(split.validation, split.symbols), validation);
  EXPECT_EQ(validation.substr(0, 9), "line 950\n");
}

TEST(SplitText, TakesAnyBytes) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  const TextSplit split = split_text(text);
  EXPECT_EQ(split.symbols.size(), 256u);
  EXPECT_EQ(text_of(split.train, split.symbols), text);
  EXPECT_TRUE(split_text("").train.empty());
}

TEST(TextWindows, HoldTheNextCharacterAtEachPlace) {
  const TextWindows windows({0, 1, 2, 3, 4, 5, 6, 7}, 3);
  ASSERT_EQ(windows.count(), 2u) << "the last character has none behind it";
  const std::vector<std::int64_t> both = {1, 0};
  const auto [inputs, targets] = windows.pick(both);
  EXPECT_TRUE(torch::equal(inputs, torch::tensor({{3, 4, 5}, {0, 1, 2}}, torch::kLong)));
  EXPECT_TRUE(torch::equal(targets, torch::tensor({{4, 5, 6}, {1, 2, 3}}, torch::kLong)));
  EXPECT_TRUE(torch::equal(windows.slice({1, 2}).inputs, inputs.narrow(0, 0, 1)));
}

TEST(TextWindows, CanBeFewer) {
  EXPECT_EQ(TextWindows(std::vector<std::uint8_t>(100), 3, 7).count(), 7u);
  EXPECT_EQ(TextWindows(std::vector<std::uint8_t>(100), 3, 700).count(), 33u);
}

TEST(TextWindows, RefuseATextThatIsTooShort) {
  try {
    TextWindows({1, 2, 3}, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "3 characters of text are too few for a context of 3; one line in 20 is for "
                 "validation, in blocks of 50: give it a few thousand lines, or use a shorter "
                 "--context");
  }
  EXPECT_THROW(TextWindows({}, 1), Error);
}

TEST(LoadText, ReadsAllTextFilesOfAFolderByName) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "b.txt") << "second";
  std::ofstream(folder.path() / "a.txt") << "first ";
  std::ofstream(folder.path() / "c.md") << "not this one";
  const TextSplit split = load_text(folder.path());
  EXPECT_EQ(text_of(split.train, split.symbols), "first second");
}

TEST(LoadText, SaysWhereThereIsNone) {
  const TemporaryFolder folder;
  for (const auto& path : {folder.path(), folder.path() / "nowhere"}) {
    try {
      load_text(path);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "there is no text in '" + path.string() +
                    "'; name a folder that holds files ending in .txt with --data-folder");
    }
  }
  try {
    load_kjv(folder.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              (folder.path() / "kjv.txt").string() +
                  " cannot be read; run `make kjv` to make it from Debian's packages");
  }
}

TEST(LoadData, RefusesShardsByLabelsWhereThereAreNone) {
  const TemporaryFolder folder;
  std::ofstream text(folder.path() / "a.txt");
  for (int line = 0; line < 2'000; ++line) text << "some words\n";
  text.close();
  TrainSettings settings;
  settings.data = TrainSettings::Data::text;
  settings.data_folder = folder.path().string();
  settings.batch = 8;
  EXPECT_EQ(load_data(settings, 2).classes, 9);  // emorsdw, a space and the end of a line
  settings.shards = TrainSettings::Shards::label;
  try {
    load_data(settings, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "shards = label goes by labels, and data = text has none; use shards even");
  }
}

}  // namespace
}  // namespace starling
