#include <cstring>
#include <limits>

#include "tests/codec/coding.h"

namespace starling {
namespace {

// A random matrix of this rank, row by row.
std::vector<float> matrix_of_rank(std::size_t rows, std::size_t columns, std::size_t rank,
                                  std::uint64_t seed) {
  const std::vector<float> left = normals(rows * rank, seed),
                           right = normals(rank * columns, seed + 1);
  std::vector<float> matrix(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t k = 0; k < rank; ++k) {
        matrix[i * columns + j] += left[i * rank + k] * right[k * columns + j];
      }
    }
  }
  return matrix;
}

CodecSettings of_rank(int rank) { return {.kind = CodecSettings::Kind::low_rank, .rank = rank}; }

double lost(Codec& codec, const std::vector<float>& values) {
  return std::sqrt(squared_length(send(codec, values).rest) / squared_length(values));
}

TEST(LowRank, SendsAMatrixOfThatRankWhole) {
  for (std::size_t rank : {1, 2, 5}) {
    const std::vector<float> matrix = matrix_of_rank(60, 41, rank, 1);
    const auto codec = make_codec(of_rank(5), {.folds = {{0, 60, 41}}});
    for (int round = 0; round < 5; ++round) EXPECT_LT(lost(*codec, matrix), 1e-5) << round;
    EXPECT_EQ(send(*codec, matrix).code.size(), 4u * 5 * (60 + 41));
  }
}

// As the start is warm, power iteration goes on from vector to vector, and ends at the best there is.
TEST(LowRank, ComesCloserFromVectorToVector) {
  std::vector<float> matrix = matrix_of_rank(80, 80, 3, 2);
  const std::vector<float> noise = normals(matrix.size(), 3, 0.7);
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] += noise[i];
  const auto codec = make_codec(of_rank(3), {.folds = {{0, 80, 80}}});
  double last = 1, first = 0;
  for (int round = 0; round < 12; ++round) {
    const double now = lost(*codec, matrix);
    EXPECT_LT(now, last + 1e-6) << round;
    if (round == 0) first = now;
    last = now;
  }
  EXPECT_LT(last, 0.99 * first);
  const double best = std::sqrt(squared_length(noise) / squared_length(matrix));
  EXPECT_LT(last, best);  // noise has some of that rank, too
  EXPECT_GT(last, 0.9 * best);
}

TEST(LowRank, SendsRawWhatNoFoldCovers) {
  // Three elements, a matrix, two, a matrix that would not become shorter, a matrix, one.
  const std::vector<Fold> folds = {{3, 20, 10}, {205, 2, 9}, {223, 10, 30}};
  const std::vector<float> values = normals(524, 4);
  const auto codec = make_codec(of_rank(2), {.folds = folds});
  const Sent sent = send(*codec, values);
  EXPECT_EQ(sent.code.size(), 4u * (3 + 2 * 30 + 2 + 18 + 2 * 40 + 1));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool coded = (i >= 3 && i < 203) || (i >= 223 && i < 523);
    if (!coded) {
      ASSERT_EQ(sent.decoded[i], values[i]) << i;
      ASSERT_EQ(sent.rest[i], 0) << i;
    } else {
      ASSERT_NE(sent.rest[i], 0) << i;
    }
  }
}

TEST(LowRank, TakesAVectorForASquareWithoutFolds) {
  const auto codec = make_codec(of_rank(2));
  std::vector<float> values = matrix_of_rank(50, 51, 2, 5);
  EXPECT_LT(lost(*codec, values), 1e-5);
  EXPECT_EQ(codec->largest_code_bytes(2550), 4u * 2 * (50 + 51));
  EXPECT_EQ(codec->largest_code_bytes(2549), 4u * (2 * (50 + 50) + 49));
  EXPECT_EQ(codec->largest_code_bytes(3), 4u * 3);
  EXPECT_EQ(codec->largest_code_bytes(0), 0u);
  // Vectors of other lengths in between start anew.
  lost(*codec, normals(100, 6));
  EXPECT_LT(lost(*codec, values), 1e-5);
}

// A direction that is zero once must not be zero for ever.
// The columns of Q may be too long for floats where those of P, which are of length one, are not.
TEST(LowRank, LeavesNothingOfWhatBecomesInfiniteOnItsWay) {
  int infinite = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto codec = make_codec(of_rank(1), {.seed = seed, .folds = {{0, 64, 64}}});
    const Sent sent = send(*codec, std::vector<float>(64 * 64, 1e38f));
    if (std::isfinite(sent.decoded[0])) continue;
    ++infinite;
    EXPECT_EQ(sent.rest, std::vector<float>(64 * 64)) << seed;
  }
  EXPECT_GT(infinite, 0);
}

TEST(LowRank, FindsItsWayBackFromZerosAndFromNan) {
  const std::vector<float> matrix = matrix_of_rank(40, 40, 2, 7);
  const auto codec = make_codec(of_rank(2), {.folds = {{0, 40, 40}}});
  const std::vector<float> zeros(1600);
  EXPECT_EQ(send(*codec, zeros).decoded, zeros);
  EXPECT_LT(lost(*codec, matrix), 1e-5);
  lost(*codec, matrix_of_rank(40, 40, 1, 8));
  EXPECT_LT(lost(*codec, matrix), 1e-5);
  std::vector<float> broken = matrix;
  broken[77] = std::numeric_limits<float>::quiet_NaN();
  const Sent sent = send(*codec, broken);
  EXPECT_TRUE(std::isnan(sent.decoded[0]));
  EXPECT_EQ(sent.rest, zeros);
  EXPECT_LT(lost(*codec, matrix), 1e-5);
}

TEST(LowRank, SendsTinyAndLargeGradientsAlikeWell) {
  for (float factor : {1e-25f, 1e-8f, 1e10f, 1e25f}) {
    std::vector<float> matrix = matrix_of_rank(40, 40, 2, 9);
    for (float& value : matrix) value *= factor;
    const auto codec = make_codec(of_rank(2), {.folds = {{0, 40, 40}}});
    for (int round = 0; round < 3; ++round) EXPECT_LT(lost(*codec, matrix), 1e-5) << factor;
  }
}

}  // namespace
}  // namespace starling
