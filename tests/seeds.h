// Tests over many seeds, each of which is run twice and must behave alike. A few hundred run with the
// other tests; STARLING_SEEDS=10000 runs more, STARLING_SEED=7 only that one.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>

namespace starling {

// run(seed) tells all that happened in a text, and checks it.
template <class Run>
void each_seed_twice_alike(std::uint64_t few, const Run& run) {
  const auto variable = [](const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
  };
  const std::uint64_t first = variable("STARLING_SEED", 0);
  const std::uint64_t behind =
      std::getenv("STARLING_SEED") != nullptr ? first + 1 : variable("STARLING_SEEDS", few);
  const auto level = spdlog::get_level();
  spdlog::set_level(spdlog::level::off);  // strangers and losses are what these tests are about
  for (std::uint64_t seed = first; seed < behind && !::testing::Test::HasFailure(); ++seed) {
    std::string what;
    try {
      what = run(seed);
      EXPECT_EQ(run(seed), what) << "the same seed went another way";
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (::testing::Test::HasFailure())
      ADD_FAILURE() << "with STARLING_SEED=" << seed << ": " << what;
  }
  spdlog::set_level(level);
}

}  // namespace starling
