#include "report/escape.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(Escape, LeavesNothingThatEndsATextOrAnAttribute) {
  EXPECT_EQ(escaped_for_markup("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
  EXPECT_EQ(escaped_for_markup("&amp;"), "&amp;amp;");
  EXPECT_EQ(escaped_for_markup("new\nline\tand\x01more"), "new\nline and more");
  EXPECT_EQ(escaped_for_markup("τ é 🐦"), "τ é 🐦");
}

}  // namespace
}  // namespace starling
