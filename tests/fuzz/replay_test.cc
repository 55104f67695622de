// What fuzzers have found, and a few inputs that they begin with.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/fuzz.h"

namespace starling {
namespace {

class Corpus : public testing::TestWithParam<FuzzTarget> {};

TEST_P(Corpus, IsRefusedOrReadAndBreaksNothing) {
  spdlog::set_level(spdlog::level::off);
  const std::filesystem::path folder = std::filesystem::path(STARLING_CORPUS) / GetParam().name;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NO_THROW(GetParam().run(std::as_bytes(std::span(bytes))));
    ++files;
  }
  EXPECT_GT(files, 0);
  EXPECT_NO_THROW(GetParam().run({}));
}

INSTANTIATE_TEST_SUITE_P(Of, Corpus, testing::ValuesIn(fuzz_targets()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace starling
