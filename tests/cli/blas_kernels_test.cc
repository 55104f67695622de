// Workers multiply with kernels that suit the processor, even where OpenBLAS does not know it.
#include "launch/blas_kernels.h"

#include <gtest/gtest.h>

#include "tests/cli/starling_program.h"

namespace starling {
namespace {

const std::string kOldLibrary = std::string("LD_LIBRARY_PATH=") + STARLING_OLD_OPENBLAS_FOLDER;
const std::vector<std::string> kTellKernels = {
    STARLING_PROGRAM,
    "launch",
    "-n",
    "1",
    "--",
    "/bin/sh",
    "-c",
    "test -n \"$STARLING_RANK\" && echo \"kernels=$OPENBLAS_CORETYPE\""};

TEST(BlasKernels, AreSetForWorkersIfTheLibraryTakesOlderOnes) {
  Process process(kTellKernels, {kOldLibrary});
  ASSERT_EQ(process.wait(60s), "exit 0") << process.err();
  const std::string better = better_kernels("Prescott", processor_vectors());
  EXPECT_NE(process.out().find("kernels=" + better + "\n"), std::string::npos) << process.out();
}

TEST(BlasKernels, AreLeftToWhoeverHasSetThem) {
  Process process(kTellKernels, {kOldLibrary, "OPENBLAS_CORETYPE=Nehalem"});
  ASSERT_EQ(process.wait(60s), "exit 0") << process.err();
  EXPECT_NE(process.out().find("kernels=Nehalem\n"), std::string::npos) << process.out();
}

TEST(BlasKernels, AreToldWithTheVersion) {
  Process process({STARLING_PROGRAM, "--version"}, {kOldLibrary});
  ASSERT_EQ(process.wait(60s), "exit 0") << process.err();
  const std::string better = better_kernels("Prescott", processor_vectors());
  const std::string used = better.empty() ? "Prescott" : better;
  EXPECT_NE(process.out().find("OpenBLAS kernels: " + used), std::string::npos) << process.out();
}

}  // namespace
}  // namespace starling
