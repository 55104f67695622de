// Labs are built for real, which takes root; without it only what they are called is tested.
#include "net/lab.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"

namespace starling {
namespace {

std::set<std::string> interfaces_here() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net")) {
    names.insert(entry.path().filename());
  }
  return names;
}

bool is_up(const std::string& name) {
  const std::vector<Lab> labs = Lab::all();
  return std::ranges::find(labs, name, &Lab::name) != labs.end();
}

TEST(LabSpec, IsANumberOfHostsAndARate) {
  EXPECT_EQ(parse_lab_spec("6x100mbit").hosts, 6);
  EXPECT_EQ(parse_lab_spec("6x100mbit").rate, "100mbit");
  EXPECT_EQ(parse_lab_spec("1.5gbit").hosts, 0);
  EXPECT_EQ(parse_lab_spec("1.5gbit").rate, "1.5gbit");
}

TEST(LabSpec, OfAnotherKindIsRefused) {
  for (const char* text : {"", "x", "0x1mbit", "-1x1mbit", "6x", "6", "100", "100mbps", "mbit",
                           "6x100mbit; rm", "201x1mbit", "1x2x3mbit", ".5mbit", "1234567890mbit"}) {
    EXPECT_THROW(parse_lab_spec(text), Error) << text;
  }
}

class BuiltLab : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "building a lab takes root";
  }
  void TearDown() override {
    for (const Lab& lab : Lab::all()) {
      if (lab.name().starts_with("test")) lab.down();
    }
  }
};

TEST_F(BuiltLab, StandsUntilItIsTakenDownAndTouchesNothingElse) {
  const auto before = interfaces_here();
  const Lab lab = Lab::up("test_one", {3, "50mbit"});
  EXPECT_EQ(interfaces_here(), before);
  EXPECT_EQ(lab.hosts(), 3);
  EXPECT_EQ(lab.rate(), "50Mbit");
  EXPECT_EQ(lab.address(2), "10.77.0.3");
  EXPECT_TRUE(lab.processes(0).empty());
  EXPECT_EQ(Lab::find("test_one").hosts(), 3);
  lab.down();
  EXPECT_FALSE(is_up("test_one"));
  EXPECT_EQ(interfaces_here(), before);
  lab.down();  // again does no harm
}

TEST_F(BuiltLab, StandsBesideAnother) {
  const Lab one = Lab::up("test_one", {2, "50mbit"});
  const Lab two = Lab::up("test_two", {1, "1mbit"});
  EXPECT_EQ(two.rate(), "1Mbit");
  one.down();
  EXPECT_FALSE(is_up("test_one"));
  EXPECT_TRUE(is_up("test_two"));
}

TEST_F(BuiltLab, IsNotBuiltTwiceNorUnderAnyName) {
  Lab::up("test_one", {1, "50mbit"});
  EXPECT_THROW(Lab::up("test_one", {1, "50mbit"}), Error);
  EXPECT_EQ(Lab::find("test_one").hosts(), 1);  // the first is unharmed
  for (const char* name : {"", "a b", "../etc", "A", "x-y"}) {
    EXPECT_THROW(Lab::up(name, {1, "50mbit"}), Error) << name;
  }
  EXPECT_THROW(Lab::find("nosuch"), Error);
}

TEST_F(BuiltLab, ThatCannotBeFinishedLeavesNothingBehind) {
  EXPECT_THROW(Lab::up("test_one", {2, "nonsense"}), Error);
  EXPECT_FALSE(is_up("test_one"));
}

TEST_F(BuiltLab, OfAJobEndsWithItAndThoseOfDeadJobsAreTakenAway) {
  constexpr const char* kDead = "run99999999";  // more than any process number
  Lab::up(kDead, {1, "50mbit"});
  std::string own;
  {
    const LabStay stay("50mbit", 2);
    own = stay.lab().name();
    EXPECT_EQ(stay.lab().hosts(), 2);
    EXPECT_FALSE(is_up(kDead));
  }
  EXPECT_FALSE(is_up(own));
}

TEST_F(BuiltLab, OfANameStaysWhenTheJobEnds) {
  Lab::up("test_one", {2, "50mbit"});
  { const LabStay stay("test_one", 2); }
  EXPECT_TRUE(is_up("test_one"));
  EXPECT_THROW(LabStay("test_one", 3), Error);
  EXPECT_THROW(LabStay("2x50mbit", 3), Error);
}

}  // namespace
}  // namespace starling
