#include "launch/blas_kernels.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace starling {
namespace {

TEST(BlasKernels, AreReplacedWhereTheProcessorCanDoMore) {
  EXPECT_EQ(better_kernels("Prescott", Vectors::kAvx512), "SkylakeX");
  EXPECT_EQ(better_kernels("Prescott", Vectors::kAvx2), "Haswell");
  EXPECT_EQ(better_kernels("Nehalem", Vectors::kAvx), "Sandybridge");
  EXPECT_EQ(better_kernels("Sandybridge", Vectors::kAvx2), "Haswell");
  EXPECT_EQ(better_kernels("Zen", Vectors::kAvx512), "SkylakeX");
}

TEST(BlasKernels, StayWhereTheLibraryChoseAsWell) {
  EXPECT_EQ(better_kernels("Prescott", Vectors::kSse), "");
  EXPECT_EQ(better_kernels("Zen", Vectors::kAvx2), "");
  EXPECT_EQ(better_kernels("Haswell", Vectors::kAvx2), "");
  EXPECT_EQ(better_kernels("SkylakeX", Vectors::kAvx512), "");
}

TEST(BlasKernels, StayWhereNobodyKnowsThem) {
  EXPECT_EQ(better_kernels("Graniterapids", Vectors::kAvx512), "");
  EXPECT_EQ(better_kernels("neoversev1", Vectors::kSse), "");
  EXPECT_EQ(better_kernels("", Vectors::kAvx512), "");
}

TEST(BlasKernels, AreNobodysWithoutALibrary) {
  EXPECT_EQ(library_kernels("/there/is/no/such/library.so"), "");
  EXPECT_EQ(library_kernels("libc.so.6"), "");  // one that is no OpenBLAS
}

// Whatever the library takes here, workers get kernels that use what the processor has.
TEST(BlasKernels, AreNeverOlderThanTheProcessor) {
  ::unsetenv(kBlasKernelsVariable);
  const BlasKernels kernels = blas_kernels();
  EXPECT_EQ(better_kernels(kernels.name, processor_vectors()), "") << kernels.name;
  EXPECT_EQ(kernels.must_be_set, kernels.name != library_kernels());
}

}  // namespace
}  // namespace starling
