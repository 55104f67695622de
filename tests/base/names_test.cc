#include "base/names.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/error_of.h"

namespace starling {
namespace {

enum class Bird { starling, house_sparrow, wren };
constexpr Names<3> names_of(Bird) { return {"bird", {"starling", "house-sparrow", "wren"}}; }

TEST(Names, AreReadAndWrittenAlike) {
  for (const Bird bird : {Bird::starling, Bird::house_sparrow, Bird::wren}) {
    EXPECT_EQ(named<Bird>(name_of(bird)), bird);
    EXPECT_EQ(fmt::format("{}", bird), name_of(bird));
    std::ostringstream text;
    text << bird;
    EXPECT_EQ(text.str(), name_of(bird));
  }
  EXPECT_EQ(name_of(Bird::house_sparrow), "house-sparrow");
}

TEST(Names, ThatAreNoneAreAnsweredWithThoseThereAre) {
  for (const std::string name : {"", "Starling", "star", "starlings", "starling, wren"}) {
    EXPECT_EQ(find_named<Bird>(name), std::nullopt);
    EXPECT_EQ(error_of([&] { named<Bird>(name); }),
              "there is no bird '" + name + "'; there are starling, house-sparrow, wren");
  }
}

TEST(Names, AreListedForPeople) {
  EXPECT_EQ(names_listed<Bird>(" or "), "starling, house-sparrow or wren");
  EXPECT_EQ(listed(std::vector<std::string>{"one", "two"}, " and "), "one and two");
  EXPECT_EQ(listed(std::vector<std::string>{"one"}, " and "), "one");
  EXPECT_EQ(listed(std::vector<std::string>()), "");
}

struct Row {
  Bird bird;
};

TEST(Names, OfARegistryStandInTheOrderOfTheEnum) {
  using enum Bird;
  const auto is_one = [](const auto& rows) { return is_a_registry(rows, &Row::bird); };
  EXPECT_TRUE(is_one(std::array{Row{starling}, Row{house_sparrow}, Row{wren}}));
  EXPECT_FALSE(is_one(std::array{Row{starling}, Row{wren}, Row{house_sparrow}}));
  EXPECT_FALSE(is_one(std::array{Row{starling}, Row{house_sparrow}})) << "one is missing";
}

}  // namespace
}  // namespace starling
