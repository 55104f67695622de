// Training on hosts of their own, with slow links.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/cli/starling_program.h"

namespace starling {
namespace {

using nlohmann::json;

class InALab : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "building a lab takes root";
  }
  json train(std::vector<std::string> how) {
    std::vector<std::string> words = {"train",     "--json",    "--data",
                                      "synthetic", "--samples", "600",
                                      "--epochs",  "1",         "--workers",
                                      "3",         "--run",     (folder_.path() / "run").string()};
    words.insert(words.end(), how.begin(), how.end());
    const Ran ran = starling_program(words, 120s);
    EXPECT_EQ(ran.status, "exit 0") << ran.err;
    return json::parse(ran.out, nullptr, false);
  }
  TemporaryFolder folder_;
};

TEST_F(InALab, TheKernelCountsWhatWeCount) {
  const json summary = train({"--strategy", "allreduce", "--lab", "3x200mbit"});
  ASSERT_TRUE(summary.contains("kernel_bytes_sent")) << summary;
  for (std::size_t i = 0; i < 3; ++i) {
    const double ours = summary["wire_bytes_sent"][i], kernels = summary["kernel_bytes_sent"][i];
    EXPECT_GE(kernels, ours);
    EXPECT_LE(kernels, 1.05 * ours) << summary;
  }
  const std::string network = file_text(folder_.path() / "run" / "network.jsonl");
  EXPECT_NE(network.find("kernel_sent"), std::string::npos);
}

TEST_F(InALab, ParameterServersHaveHostsToo) {
  const json summary = train({"--strategy", "server", "--servers", "1", "--lab", "200mbit"});
  ASSERT_EQ(summary["kernel_bytes_sent"].size(), 4u) << summary;
  const double ours = summary["wire_bytes_sent"][3], kernels = summary["kernel_bytes_sent"][3];
  EXPECT_NEAR(kernels, ours, 0.05 * ours) << "a server counts its own";
}

TEST_F(InALab, WhatCannotBeIsRefusedInOneLine) {
  for (const char* lab : {"nosuch", "2x100mbit", "100"}) {
    const Ran ran =
        starling_program({"train", "--data", "synthetic", "--samples", "600", "--workers", "3",
                          "--lab", lab, "--run", (folder_.path() / "run").string()},
                         60s);
    EXPECT_EQ(ran.status, "exit 1") << lab;
    EXPECT_TRUE(ran.in_one_error_line()) << ran.err;
  }
}

}  // namespace
}  // namespace starling
