// What is written is read back by a decoder that shares nothing with the writer.
#include "report/tensorboard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "report/crc32c.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

// Bit by bit, from the definition: the highest bit first, over reflected bytes.
std::uint32_t slow_crc32c(const std::string& data) {
  const auto reflected = [](std::uint32_t value, int bits) {
    std::uint32_t out = 0;
    for (int i = 0; i < bits; ++i) out |= (value >> i & 1) << (bits - 1 - i);
    return out;
  };
  std::uint32_t rest = 0xFFFFFFFF;
  for (char c : data) {
    rest ^= reflected(static_cast<unsigned char>(c), 8) << 24;
    for (int i = 0; i < 8; ++i) rest = (rest & 0x80000000) ? rest << 1 ^ 0x1EDC6F41 : rest << 1;
  }
  return reflected(rest, 32) ^ 0xFFFFFFFF;
}

std::uint32_t slow_masked(const std::string& data) {
  const std::uint32_t crc = slow_crc32c(data);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8;
}

template <class T>
T number_at(const std::string& bytes, std::size_t at) {
  if (at + sizeof(T) > bytes.size()) throw std::runtime_error("cut short");
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// One message's fields; a number stands as its eight or four bytes.
std::map<unsigned, std::string> fields(const std::string& message) {
  std::map<unsigned, std::string> found;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const std::uint64_t key = varint();
    std::string value;
    if ((key & 7) == 0) {
      const std::uint64_t number = varint();
      value.assign(reinterpret_cast<const char*>(&number), sizeof number);
    } else {
      const std::size_t size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint();
      if ((key & 7) > 2 && (key & 7) != 5) throw std::runtime_error("no such wire type");
      if (size > message.size() - at) throw std::runtime_error("cut short");
      value = message.substr(at, size);
      at += size;
    }
    if (!found.emplace(static_cast<unsigned>(key >> 3), value).second) {
      throw std::runtime_error("a field twice");
    }
  }
  return found;
}

struct Point {
  std::string tag;
  float value;
  std::int64_t step;
  double wall_time;
};

class TensorBoard : public testing::Test {
 protected:
  std::vector<fs::path> files() const {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(folder_)) paths.push_back(entry.path());
    return paths;
  }

  std::vector<std::string> records() const {
    EXPECT_EQ(files().size(), 1u);
    std::ifstream file(files().at(0), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::vector<std::string> found;
    for (std::size_t at = 0; at < bytes.size();) {
      const auto size = number_at<std::uint64_t>(bytes, at);
      EXPECT_EQ(number_at<std::uint32_t>(bytes, at + 8), slow_masked(bytes.substr(at, 8)));
      if (size > bytes.size()) throw std::runtime_error("cut short");
      found.push_back(bytes.substr(at + 12, size));
      EXPECT_EQ(number_at<std::uint32_t>(bytes, at + 12 + size), slow_masked(found.back()));
      at += 12 + size + 4;
    }
    return found;
  }

  std::vector<Point> points() const {
    std::vector<Point> found;
    const auto all = records();
    for (std::size_t i = 1; i < all.size(); ++i) {
      auto event = fields(all[i]);
      EXPECT_EQ(event.size(), 3u);
      auto summary = fields(event.at(5));
      EXPECT_EQ(summary.size(), 1u);
      auto value = fields(summary.at(1));
      EXPECT_EQ(value.size(), 2u);
      found.push_back({value.at(1), number_at<float>(value.at(2), 0),
                       number_at<std::int64_t>(event.at(2), 0), number_at<double>(event.at(1), 0)});
    }
    return found;
  }

  TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST(Crc32c, IsTheOneOfCastagnoli) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283);
  EXPECT_EQ(crc32c(""), 0u);
  // The vectors of RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(crc32c(all), slow_crc32c(all));
}

TEST_F(TensorBoard, FindsTheFileAndItsVersion) {
  const TensorBoardLog log(folder_);
  const std::string name = files().at(0).filename();
  ASSERT_TRUE(name.starts_with("events.out.tfevents.")) << name;
  EXPECT_EQ(name.find_first_not_of("0123456789", 20), 30u) << name;
  EXPECT_EQ(name[30], '.');
  EXPECT_GT(name.size(), 31u);
  const auto all = records();
  ASSERT_EQ(all.size(), 1u);
  auto version = fields(all[0]);
  EXPECT_EQ(version.at(3), "brain.Event:2");
  EXPECT_GT(number_at<double>(version.at(1), 0), 1.6e9);
}

TEST_F(TensorBoard, ReadsEachPointAsItIsWritten) {
  TensorBoardLog log(folder_);
  log.scalar("loss", 2.5, 7, 1700000000.25);
  ASSERT_EQ(points().size(), 1u);  // while the log is still open
  log.scalar("accuracy", 0.1, 8, 1700000001.5);
  log.scalar("loss", -0.0, 0, 0);
  const auto all = points();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].tag, "loss");
  EXPECT_EQ(all[0].value, 2.5f);
  EXPECT_EQ(all[0].step, 7);
  EXPECT_EQ(all[0].wall_time, 1700000000.25);
  EXPECT_EQ(all[1].tag, "accuracy");
  EXPECT_EQ(all[1].value, 0.1f);
  EXPECT_TRUE(std::signbit(all[2].value));
  EXPECT_EQ(all[2].step, 0);
}

TEST_F(TensorBoard, ReadsWhatIsAtTheEdges) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  const std::string long_tag(300, 't');
  TensorBoardLog log(folder_);
  log.scalar("", 1, kMost, 1);
  log.scalar(long_tag, 1, kLeast, 1);
  log.scalar("a/b \xC3\xA4", 1e300, -1, 1);
  log.scalar("nan", std::nan(""), 127, 1);
  log.scalar("inf", -std::numeric_limits<double>::infinity(), 128, 1);
  const auto all = points();
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].tag, "");
  EXPECT_EQ(all[0].step, kMost);
  EXPECT_EQ(all[1].tag, long_tag);
  EXPECT_EQ(all[1].step, kLeast);
  EXPECT_EQ(all[2].tag, "a/b \xC3\xA4");
  EXPECT_EQ(all[2].step, -1);
  EXPECT_EQ(all[2].value, std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(all[3].value));
  EXPECT_EQ(all[3].step, 127);
  EXPECT_EQ(all[4].value, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(all[4].step, 128);
}

TEST_F(TensorBoard, LogsOfTheSameSecondAreFilesOfTheirOwn) {
  TensorBoardLog one(folder_), two(folder_);
  one.scalar("loss", 1, 1, 1);
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(TensorBoard, LogThatCannotBeWrittenIsRefused) {
  EXPECT_THROW(TensorBoardLog(folder_ / "nosuch"), Error);
  std::ofstream(folder_ / "file") << "no folder";
  EXPECT_THROW(TensorBoardLog(folder_ / "file"), Error);
}

}  // namespace
}  // namespace starling
