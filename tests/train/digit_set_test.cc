#include "train/digit_set.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "tests/error_of.h"

namespace starling {
namespace {

constexpr std::size_t kImageBytes = kDigitSide * kDigitSide;

std::string word(std::size_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 0xff);
  return text;
}

std::string images(std::size_t count, char first_pixel, std::size_t side = kDigitSide) {
  std::string pixels(count * side * side, '\0');
  pixels[0] = first_pixel;
  return word(0x803) + word(count) + word(side) + word(side) + pixels;
}

std::string labels(const std::string& values) { return word(0x801) + word(values.size()) + values; }

class Mnist : public ::testing::Test {
 protected:
  Mnist() {
    put("train-images-idx3-ubyte", images(3, 'A'));
    put("train-labels-idx1-ubyte", labels({5, 0, 9}));
    put("t10k-images-idx3-ubyte", images(2, 'B'));
    put("t10k-labels-idx1-ubyte", labels({7, 2}));
  }

  void put(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  void expect_refusal(const std::string& name, const std::string& what) {
    try {
      load_mnist(folder_);
      ADD_FAILURE() << "loaded, though " << name << " is bad";
    } catch (const Error& error) {
      const std::string line = error.what();
      EXPECT_NE(line.find((folder_ / name).string()), std::string::npos) << line;
      EXPECT_NE(line.find(what), std::string::npos) << line;
      EXPECT_TRUE(line.ends_with("; run `make mnist` to fetch it again, or use --data synthetic"))
          << line;
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    }
  }

  TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(Mnist, LoadsBothSplitsWithTheirLabels) {
  const Digits digits = load_mnist(folder_);
  EXPECT_EQ(digits.train.count, 3U);
  EXPECT_EQ(digits.train.rows, kDigitSide);
  EXPECT_EQ(digits.train.cols, kDigitSide);
  EXPECT_EQ(digits.train.pixels.size(), 3 * kImageBytes);
  EXPECT_EQ(digits.train.pixels[0], 'A');
  EXPECT_EQ(digits.train.labels, (std::vector<std::uint8_t>{5, 0, 9}));
  EXPECT_EQ(digits.test.count, 2U);
  EXPECT_EQ(digits.test.pixels.size(), 2 * kImageBytes);
  EXPECT_EQ(digits.test.pixels[0], 'B');
  EXPECT_EQ(digits.test.labels, (std::vector<std::uint8_t>{7, 2}));
}

// In the same form, but with pixels of another mean, and got by another command.
TEST_F(Mnist, LoadsFashionMnistAsWell) {
  const Digits clothes = load_fashion_mnist(folder_);
  EXPECT_EQ(clothes.train.labels, (std::vector<std::uint8_t>{5, 0, 9}));
  EXPECT_EQ(clothes.test.count, 2U);
  for (const DigitSet& set : {clothes.train, clothes.test}) {
    EXPECT_EQ(set.mean, 0.2861);
    EXPECT_EQ(set.deviation, 0.3529);
  }
  std::filesystem::remove(folder_ / "t10k-labels-idx1-ubyte");
  EXPECT_EQ(error_of([&] { load_fashion_mnist(folder_); }),
            (folder_ / "t10k-labels-idx1-ubyte").string() +
                " is missing; run `make fashion-mnist` to fetch it again, or use --data synthetic");
}

TEST_F(Mnist, NamesEachFileThatIsMissing) {
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    std::filesystem::rename(folder_ / name, folder_ / "away");
    expect_refusal(name, "is missing");
    std::filesystem::rename(folder_ / "away", folder_ / name);
  }
}

TEST_F(Mnist, RefusesATruncatedFile) {
  std::filesystem::resize_file(folder_ / "train-images-idx3-ubyte", 16 + 2 * kImageBytes + 10);
  expect_refusal("train-images-idx3-ubyte", "is truncated");
}

TEST_F(Mnist, RefusesFewerLabelsThanImages) {
  put("train-labels-idx1-ubyte", labels({5, 0}));
  expect_refusal("train-labels-idx1-ubyte", "2 labels for the 3 images");
}

TEST_F(Mnist, RefusesALabelThatIsNoDigit) {
  put("t10k-labels-idx1-ubyte", labels({7, 10}));
  expect_refusal("t10k-labels-idx1-ubyte", "label 10 at position 1");
}

TEST_F(Mnist, RefusesImagesOfAnotherSize) {
  put("t10k-images-idx3-ubyte", images(2, 'B', 14));
  expect_refusal("t10k-images-idx3-ubyte", "14 x 14, not 28 x 28");
}

}  // namespace
}  // namespace starling
