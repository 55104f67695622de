#include "base/units.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/error_of.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

TEST(FormatBytes, PrintsOneDecimalFromAKilobyteOn) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.0 KB");
  EXPECT_EQ(format_bytes(87'351), "87.4 KB");
  EXPECT_EQ(format_bytes(64e6), "64.0 MB");
  EXPECT_EQ(format_bytes(2.5e9), "2.5 GB");
  EXPECT_EQ(format_bytes(7e12), "7.0 TB");
}

TEST(FormatBytes, NeverPrintsAThousandOfAUnitThatHasANextOne) {
  EXPECT_EQ(format_bytes(999.4), "999 B");
  EXPECT_EQ(format_bytes(999.5), "1.0 KB");
  EXPECT_EQ(format_bytes(999.95), "1.0 KB");
  EXPECT_EQ(format_bytes(999'949), "999.9 KB");
  EXPECT_EQ(format_bytes(999'950), "1.0 MB");
  EXPECT_EQ(format_bytes(999'949'999), "999.9 MB");
  EXPECT_EQ(format_bytes(999'950'000), "1.0 GB");
  EXPECT_EQ(format_bytes(999.95e9), "1.0 TB");
  EXPECT_EQ(format_bytes(1e15), "1000.0 TB");  // the last unit has no next one
}

TEST(FormatDuration, ChoosesTheUnitByTheSize) {
  EXPECT_EQ(format_duration(0ns), "0 s");
  EXPECT_EQ(format_duration(150ns), "0.1 us");
  EXPECT_EQ(format_duration(12'300ns), "12.3 us");
  EXPECT_EQ(format_duration(1'100us), "1.10 ms");
  EXPECT_EQ(format_duration(1500ms), "1.5 s");
  EXPECT_EQ(format_duration(125s), "2 min 5 s");
  EXPECT_EQ(format_duration(3600s), "1 h 0 min");
  EXPECT_EQ(format_duration(2h + 5min + 7s), "2 h 5 min");
  EXPECT_EQ(format_duration(26h + 59min + 59s), "26 h 59 min");
}

TEST(FormatDuration, StepsToTheNextUnitWhereRoundingWouldReachIt) {
  EXPECT_EQ(format_duration(999'940ns), "999.9 us");
  EXPECT_EQ(format_duration(999'950ns), "1.00 ms");
  EXPECT_EQ(format_duration(9'994us), "9.99 ms");
  EXPECT_EQ(format_duration(9'996us), "10.0 ms");
  EXPECT_EQ(format_duration(99'940us), "99.9 ms");
  EXPECT_EQ(format_duration(99'960us), "100 ms");
  EXPECT_EQ(format_duration(141'000us), "141 ms");
  EXPECT_EQ(format_duration(999'400us), "999 ms");
  EXPECT_EQ(format_duration(999'600us), "1.0 s");
  EXPECT_EQ(format_duration(59'940ms), "59.9 s");
  EXPECT_EQ(format_duration(59'950ms), "1 min 0 s");
  EXPECT_EQ(format_duration(119'600ms), "2 min 0 s");
  EXPECT_EQ(format_duration(3'599'600ms), "1 h 0 min");
}

TEST(FormatCount, GroupsThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(8412), "8,412");
  EXPECT_EQ(format_count(123'456), "123,456");
  EXPECT_EQ(format_count(1'234'567'890), "1,234,567,890");
}

TEST(FormatCount, PutsNoCommaBehindAMinus) {
  EXPECT_EQ(format_count(-1), "-1");
  EXPECT_EQ(format_count(-123), "-123");
  EXPECT_EQ(format_count(-8412), "-8,412");
  EXPECT_EQ(format_count(-123'456), "-123,456");
}

TEST(FormatCount, RoundsToWholes) {
  EXPECT_EQ(format_count(999.6), "1,000");
  EXPECT_EQ(format_count(1.4), "1");
}

TEST(ParseBytes, ReadsSizesAsPeopleWriteThem) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("512"), 512u);
  EXPECT_EQ(parse_bytes("512B"), 512u);
  EXPECT_EQ(parse_bytes("4KB"), 4000u);
  EXPECT_EQ(parse_bytes("64 MB"), 64'000'000u);
  EXPECT_EQ(parse_bytes("64mb"), 64'000'000u);
  EXPECT_EQ(parse_bytes("1.5GB"), 1'500'000'000u);
  EXPECT_EQ(parse_bytes("2TB"), 2'000'000'000'000u);
  EXPECT_EQ(parse_bytes("0.29KB"), 290u);  // 0.29 * 1000 is a little less than 290
  EXPECT_EQ(parse_bytes("9007199254740991"), 9'007'199'254'740'991u);
}

TEST(ParseBytes, ReadsWhatFormatBytesWrites) {
  for (double bytes : {0.0, 7.0, 999.0, 4000.0, 87'400.0, 64e6, 1.5e9, 7e12}) {
    EXPECT_EQ(static_cast<double>(parse_bytes(format_bytes(bytes))), bytes);
  }
}

TEST(ParseBytes, RefusesEverythingElseAndSaysHowToWriteIt) {
  for (const char* text :
       {"", " ", "-1", "-1KB", "KB", "1XB", "1K", "1KiB", "MB64", "64 MB extra", "1,5KB", "0x10",
        "nan", "inf", "1e400", "9007199254740992", "9008TB", "1e30TB", "99999999999999999999"}) {
    try {
      const auto bytes = parse_bytes(text);
      ADD_FAILURE() << "'" << text << "' was read as " << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "'" + std::string(text) + "' is not a size; write it like 4KB, 1MB or 64MB");
    }
  }
}

TEST(ParseRate, ReadsRatesAsLinksHaveThem) {
  EXPECT_EQ(parse_rate("100mbit"), 12.5e6);
  EXPECT_EQ(parse_rate("1 Gbit"), 125e6);
  EXPECT_EQ(parse_rate("0.5kbit"), 62.5);
  EXPECT_EQ(parse_rate("8bit"), 1);
  for (const char* text : {"", "100", "0mbit", "-1mbit", "fast", "1e300gbit", "nanmbit", "1mb"}) {
    EXPECT_EQ(error_of([&] { parse_rate(text); }),
              "'" + std::string(text) + "' is not a rate; write it like 100mbit or 10gbit");
  }
}

TEST(ParseDuration, ReadsTimesWithTheirUnit) {
  using namespace std::chrono_literals;
  EXPECT_EQ(parse_duration("200us"), 200us);
  EXPECT_EQ(parse_duration("1.5 ms"), 1500us);
  EXPECT_EQ(parse_duration("2S"), 2s);
  EXPECT_EQ(parse_duration("0ns"), 0ns);
  EXPECT_EQ(parse_duration("5 min"), 5min);
  for (const char* text : {"", "5", "-1ms", "5 mine", "1e10s", "infs"}) {
    EXPECT_EQ(error_of([&] { parse_duration(text); }),
              "'" + std::string(text) + "' is not a time; write it like 200us, 5ms, 1s or 10min");
  }
}

}  // namespace
}  // namespace starling
