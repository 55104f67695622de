#include "train/idx.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace starling {
namespace {

class Idx : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& content) {
    std::ofstream(folder_ / "file", std::ios::binary) << content;
    return folder_ / "file";
  }

  std::string refusal(const std::filesystem::path& path, std::size_t dimensions) {
    try {
      read_idx(path, dimensions);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (int value : values) text += static_cast<char>(value);
  return text;
}

void expect_says(const std::string& refusal, const std::string& part) {
  EXPECT_NE(refusal.find(part), std::string::npos) << "got: " << refusal;
  EXPECT_EQ(refusal.find('\n'), std::string::npos) << "more than one line: " << refusal;
}

TEST_F(Idx, ReadsAVectorAndItsShape) {
  const auto array = read_idx(file(bytes({0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 255})), 1);
  EXPECT_EQ(array.shape, (std::vector<std::size_t>{3}));
  EXPECT_EQ(array.values, (std::vector<std::uint8_t>{7, 0, 255}));
}

TEST_F(Idx, ReadsThreeDimensionsInTheOrderOfTheHeader) {
  const auto array =
      read_idx(file(bytes({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6})), 3);
  EXPECT_EQ(array.shape, (std::vector<std::size_t>{2, 1, 3}));
  EXPECT_EQ(array.values, (std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Idx, DimensionsAreBigEndian) {
  const auto array = read_idx(file(bytes({0, 0, 8, 1, 0, 0, 1, 2}) + std::string(258, 'x')), 1);
  EXPECT_EQ(array.values.size(), 258U);
}

TEST_F(Idx, RefusesAMissingFile) { expect_says(refusal(folder_ / "none", 1), "none is missing"); }

TEST_F(Idx, RefusesAFolder) { expect_says(refusal(folder_, 1), "is not a regular file"); }

TEST_F(Idx, RefusesAPipeWithoutWaitingForAWriter) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  expect_says(refusal(folder_ / "pipe", 1), "is not a regular file");
}

TEST_F(Idx, RefusesAnEmptyFile) {
  expect_says(refusal(file(""), 1), "is truncated: 0 bytes, less than an idx header");
}

TEST_F(Idx, RefusesAHeaderCutInTheMiddle) {
  expect_says(refusal(file(bytes({0, 0, 8, 3, 0, 0, 0, 1, 0, 0})), 3), "less than an idx header");
}

TEST_F(Idx, RefusesAFileThatIsStillCompressed) {
  expect_says(refusal(file(bytes({0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0})), 1), "starts with 1f8b0800");
}

TEST_F(Idx, RefusesImagesWhereLabelsAreExpected) {
  expect_says(refusal(file(bytes({0, 0, 8, 3, 0, 0, 0, 1, 9})), 1), "starts with 00000803");
}

TEST_F(Idx, RefusesAnotherElementType) {
  expect_says(refusal(file(bytes({0, 0, 0x0d, 1, 0, 0, 0, 1, 9, 9, 9, 9})), 1), "00000d01");
}

TEST_F(Idx, RefusesDataCutShort) {
  expect_says(refusal(file(bytes({0, 0, 8, 1, 0, 0, 0, 3, 1, 2})), 1), "is truncated");
}

TEST_F(Idx, RefusesDataAfterTheEnd) {
  expect_says(refusal(file(bytes({0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3, 4})), 1), "is too long");
}

TEST_F(Idx, RefusesADimensionOfZeroEvenWhenAnotherIsHuge) {
  expect_says(refusal(file(bytes({0, 0, 8, 1, 0, 0, 0, 0})), 1), "is empty");
  expect_says(
      refusal(file(bytes({0, 0, 8, 3, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255})), 3),
      "is empty");
}

// 2^16 * 2^24 * 2^24 is 2^64, which an unchecked product takes for no data at all.
TEST_F(Idx, RefusesDimensionsWhoseProductWouldWrapAround) {
  expect_says(refusal(file(bytes({0, 0, 8, 3, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0})), 3),
              "is truncated");
}

TEST_F(Idx, RefusesAFileBeyondTheSizeLimitWithoutReadingIt) {
  const auto path = file(bytes({0, 0, 8, 1, 0x7f, 255, 255, 255}));
  std::filesystem::resize_file(path, (std::uintmax_t{1} << 31) + 7);  // sparse: takes no disk
  expect_says(refusal(path, 1), "more than the limit");
}

}  // namespace
}  // namespace starling
