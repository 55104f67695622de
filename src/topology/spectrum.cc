// No library for eigenvalues: of all of them we want one magnitude. Where everybody's row is the
// same but shifted, the eigenvalues are known (a Fourier transform of the row). Otherwise we take
// what agrees out of the product and square the rest until only its largest eigenvalue counts:
// Gelfand's formula, |M^k|^(1/k), with k = 2^30.
#include "topology/spectrum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>

#include "base/check.h"

namespace starling {

namespace {

constexpr int kSquarings = 30;
// Beside matrices of norm one, anything smaller is rounding.
constexpr double kNothing = 1e-13;
// Powers that differ by less point the same way: the error shrinks further with the k-th root.
constexpr double kSameDirection = 1e-10;

class Square {
 public:
  explicit Square(std::size_t size) : size_(size), values_(size * size, 0.0) {}

  explicit Square(const Matrix& matrix) : Square(matrix.size()) {
    for (std::size_t i = 0; i < size_; ++i) std::ranges::copy(matrix[i], row(i).begin());
  }

  std::size_t size() const { return size_; }
  std::span<double> row(std::size_t i) { return std::span(values_).subspan(i * size_, size_); }
  std::span<const double> row(std::size_t i) const {
    return std::span(values_).subspan(i * size_, size_);
  }
  std::vector<double>& values() { return values_; }
  const std::vector<double>& values() const { return values_; }

 private:
  std::size_t size_;
  std::vector<double> values_;
};

// A few columns at a time, so that their sums stay in registers and they themselves in the cache.
Square operator*(const Square& a, const Square& b) {
  constexpr std::size_t kColumns = 4;
  using Sums = std::array<double, kColumns>;
  const std::size_t n = a.size();
  Square product(n);
  std::vector<Sums> panel(n, Sums{});
  for (std::size_t first = 0; first < n; first += kColumns) {
    const std::size_t columns = std::min(kColumns, n - first);
    for (std::size_t k = 0; k < n; ++k) {
      std::ranges::copy(b.row(k).subspan(first, columns), panel[k].begin());
    }
    for (std::size_t i = 0; i < n; ++i) {
      const std::span<const double> row = a.row(i);
      Sums sums{};
      for (std::size_t k = 0; k < n; ++k) {
        for (std::size_t c = 0; c < kColumns; ++c) sums[c] += row[k] * panel[k][c];
      }
      std::copy_n(sums.begin(), columns, product.row(i).begin() + static_cast<long>(first));
    }
  }
  return product;
}

Square transposed(const Square& m) {
  Square result(m.size());
  for (std::size_t i = 0; i < m.size(); ++i) {
    for (std::size_t k = 0; k < m.size(); ++k) result.row(k)[i] = m.row(i)[k];
  }
  return result;
}

bool rows_sum_to_one(const Square& m) {
  for (std::size_t i = 0; i < m.size(); ++i) {
    const auto row = m.row(i);
    if (std::abs(std::accumulate(row.begin(), row.end(), 0.0) - 1) > 1e-9) return false;
  }
  return true;
}

double norm(const Square& m) {
  const auto& values = m.values();
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// Rows sum to one, so the matrix keeps agreement (all entries alike) as it is. Taking from every
// column its mean leaves all other eigenvalues and makes that one 0; unlike taking away the limit,
// it need not know on what the workers agree, nor that they do.
void remove_agreement(Square& m) {
  const std::size_t n = m.size();
  std::vector<double> means(n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < n; ++k) means[k] += m.row(i)[k] / static_cast<double>(n);
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < n; ++k) m.row(i)[k] -= means[k];
  }
}

// |a - factor * b|
double distance(const Square& a, const Square& b, double factor) {
  double squares = 0;
  for (std::size_t i = 0; i < a.values().size(); ++i) {
    const double difference = a.values()[i] - factor * b.values()[i];
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

// Its magnitude.
double largest_eigenvalue(Square m) {
  double length = norm(m);
  double logarithm = 0;  // the k-th power is e^logarithm * m
  double k = 1;
  for (int i = 0; i < kSquarings; ++i) {
    if (length < kNothing) return 0;
    logarithm += std::log(length);
    for (double& value : m.values()) value /= length;
    Square next = m * m;
    length = norm(next);
    // A matrix whose square is a multiple of it has no eigenvalue but that factor, and 0.
    if (distance(next, m, length) < kSameDirection * length) {
      return std::exp((logarithm + std::log(length)) / k);
    }
    m = std::move(next);
    logarithm *= 2;
    k *= 2;
  }
  return length < kNothing ? 0 : std::exp((logarithm + std::log(length)) / k);
}

bool has_size(const Matrix& matrix, std::size_t n) {
  return matrix.size() == n &&
         std::ranges::all_of(matrix, [n](const auto& row) { return row.size() == n; });
}

// Does the graph look alike from every rank?
bool circulant(const Matrix& matrix) {
  const std::size_t n = matrix.size();
  for (std::size_t i = 1; i < n; ++i) {
    for (std::size_t k = 0; k < n; ++k) {
      if (matrix[i][k] != matrix[i - 1][(k + n - 1) % n]) return false;
    }
  }
  return true;
}

// All circulant matrices have the same eigenvectors, the waves around the ring; the wave of length
// n / 0 is agreement.
double circulant_contraction(std::span<const Matrix> rounds) {
  const std::size_t n = rounds[0].size();
  std::vector<std::complex<double>> roots;
  for (std::size_t i = 0; i < n; ++i) {
    roots.push_back(
        std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n)));
  }
  double largest = 0;
  for (std::size_t wave = 1; wave < n; ++wave) {
    double product = 1;
    for (const Matrix& round : rounds) {
      std::complex<double> eigenvalue = 0;
      for (std::size_t k = 0; k < n; ++k) eigenvalue += round[0][k] * roots[wave * k % n];
      product *= std::abs(eigenvalue) < kNothing ? 0 : std::abs(eigenvalue);
    }
    largest = std::max(largest, product);
  }
  return std::pow(largest, 1.0 / static_cast<double>(rounds.size()));
}

}  // namespace

double contraction(std::span<const Matrix> rounds) {
  STARLING_CHECK(!rounds.empty() && !rounds[0].empty(), "nothing to mix");
  const std::size_t n = rounds[0].size();
  STARLING_CHECK(std::ranges::all_of(rounds, [n](const Matrix& m) { return has_size(m, n); }),
                 "a matrix is not {} by {}", n, n);
  if (std::ranges::all_of(rounds, circulant)) return std::min(1.0, circulant_contraction(rounds));
  Square product(rounds[0]);
  for (const Matrix& round : rounds.subspan(1)) product = Square(round) * product;
  if (!rows_sum_to_one(product)) product = transposed(product);
  STARLING_CHECK(rows_sum_to_one(product), "neither rows nor columns sum to one");
  remove_agreement(product);
  const double per_round = 1.0 / static_cast<double>(rounds.size());
  return std::min(1.0, std::pow(largest_eigenvalue(std::move(product)), per_round));
}

std::optional<std::uint64_t> rounds_to_shrink_tenfold(double contraction, std::uint64_t rounds) {
  if (contraction >= 1) return std::nullopt;
  if (contraction <= 0) return rounds;
  return static_cast<std::uint64_t>(std::ceil(std::log(10) / -std::log(contraction)));
}

}  // namespace starling
