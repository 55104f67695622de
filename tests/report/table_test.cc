#include "report/table.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(Table, TextAlignsNamesLeftAndNumbersRight) {
  Table table({"exchange", "bytes", "s"});
  table.add({"ring", "1,500", "0.25"});
  table.add({"halving-doubling", "7", "12.50"});
  EXPECT_EQ(table.text(),
            "exchange          bytes      s\n"
            "----------------  -----  -----\n"
            "ring              1,500   0.25\n"
            "halving-doubling      7  12.50\n");
}

TEST(Table, TextAlignsColumnsOfWordsLeft) {
  Table table({"system", "schedule", "n"});
  table.add({"bigdl", "sync", "4"});
  table.add({"petuum", "bounded async", "12"});
  EXPECT_EQ(table.text(),
            "system  schedule        n\n"
            "------  -------------  --\n"
            "bigdl   sync            4\n"
            "petuum  bounded async  12\n");
}

TEST(Table, TextCountsLettersNotBytes) {
  Table table({"who", "accuracy", "s"});
  table.add({"a", "97.1 ± 0.2 %", "1"});
  table.add({"b", "9 %", "12"});
  EXPECT_EQ(table.text(),
            "who      accuracy   s\n"
            "---  ------------  --\n"
            "a    97.1 ± 0.2 %   1\n"
            "b             9 %  12\n");
}

TEST(Table, TextLeavesNoSpacesAtTheEndOfALine) {
  Table table({"name", "remark"});
  table.add({"a", ""});
  table.add({"", ""});
  EXPECT_EQ(table.text(),
            "name  remark\n"
            "----  ------\n"
            "a\n"
            "\n");
}

TEST(Table, TextOfNoRowsIsItsHeader) {
  EXPECT_EQ(Table({"name", "n"}).text(),
            "name  n\n"
            "----  -\n");
}

TEST(Table, MarkdownHasARuleUnderTheHeader) {
  Table table({"name", "n"});
  table.add({"ring", "4"});
  EXPECT_EQ(table.markdown(),
            "| name | n |\n"
            "| --- | --- |\n"
            "| ring | 4 |\n");
}

TEST(Table, MarkdownKeepsABarInsideItsCell) {
  Table table({"name", "sends"});
  table.add({"ring", "2 |w|"});
  EXPECT_EQ(table.markdown(),
            "| name | sends |\n"
            "| --- | --- |\n"
            "| ring | 2 \\|w\\| |\n");
}

TEST(Table, CsvQuotesOnlyWhatNeedsIt) {
  Table table({"name", "a, b"});
  table.add({"plain", "with space"});
  table.add({"1,500", "say \"hi\""});
  table.add({"two\nlines", ""});
  table.add({"a\rreturn", "\""});
  EXPECT_EQ(table.csv(),
            "name,\"a, b\"\n"
            "plain,with space\n"
            "\"1,500\",\"say \"\"hi\"\"\"\n"
            "\"two\nlines\",\n"
            "\"a\rreturn\",\"\"\"\"\n");
}

TEST(TableDeathTest, RefusesARowOfAnotherLength) {
  Table table({"name", "n"});
  EXPECT_DEATH(table.add({"only one"}), "a row of 1 in a table of 2");
}

}  // namespace
}  // namespace starling
