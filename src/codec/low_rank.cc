// Low-rank (PowerSGD; T. Vogels et al., 2019): a matrix M goes as the product of two thin ones.
//
//   P = M Q             Q from the last vector, and from a seed for the first
//   P <- orthonormal columns of P
//   Q = M^T P
//   M is sent as P Q^T
//
// One round of power iteration: as gradients turn slowly, Q comes close to the directions that
// matter. P P^T M is a projection of M, so that what is left is never longer than M.
//
// Where the matrices stand the folds say. What is between them goes raw, and so does a matrix that
// would not become shorter. With no folds the vector is one matrix, as square as can be, its last few
// elements apart: that finds what repeats at that distance, and nothing of layers.
//
// The code, in the order of the vector: floats of what is raw; for a matrix the columns of P, then
// those of Q.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/random.h"
#include "codec/codec.h"
#include "codec/levels.h"
#include "math/vector_math.h"

namespace starling {

namespace {

class LowRank : public Codec {
 public:
  LowRank(const CodecSettings& settings, const CodecStream& stream)
      : rank_(static_cast<std::size_t>(settings.rank)),
        folds_(stream.folds),
        random_{stream.seed, 0x6c} {
    std::size_t end = 0;
    for (const Fold& fold : folds_) {
      STARLING_CHECK(fold.begin >= end && fold.rows > 0 && fold.columns > 0,
                     "a fold of {} x {} at {} after one to {}", fold.rows, fold.columns, fold.begin,
                     end);
      end = end_of(fold);
    }
  }

  void encode(std::span<float> values, std::vector<std::byte>& code) override {
    code.resize(largest_code_bytes(values.size()));
    if (warm_size_ != values.size() || warm_.size() != warm_floats(values.size())) {
      forget(values.size());
    }
    std::byte* to = code.data();
    float* warm = warm_.data();
    const auto put = [&](std::span<const float> floats) {
      std::memcpy(to, floats.data(), floats.size_bytes());
      to += floats.size_bytes();
    };
    each_piece(
        values.size(),
        [&](std::size_t begin, std::size_t count) {
          const auto raw = values.subspan(begin, count);
          put(raw);
          std::ranges::fill(raw, 0.0f);
        },
        [&](const Fold& fold, std::size_t rank) {
          const auto matrix = values.subspan(fold.begin, fold.rows * fold.columns);
          const std::span<float> q(warm, rank * fold.columns);
          warm += q.size();
          const auto p = room(p_, rank * fold.rows);
          power_iteration(matrix, fold, rank, p, q);
          put(p);
          put(q);
          add_product(p, q, fold, rank, -1, matrix);
          if (largest_magnitude(matrix) >= kInfinityBits) std::ranges::fill(matrix, 0.0f);
          for (std::size_t k = 0; k < rank; ++k)
            keep_warm(q.subspan(k * fold.columns, fold.columns));
        });
  }

  void add_decoded(ConstBytes code, std::span<float> into) const override {
    if (code.size() != largest_code_bytes(into.size())) {
      throw BadCode(
          fmt::format("{} bytes are no low-rank code for {} elements", code.size(), into.size()));
    }
    const std::byte* from = code.data();
    const auto take = [&](std::vector<float>& memory, std::size_t count) {
      const auto floats = room(memory, count);
      std::memcpy(floats.data(), from, floats.size_bytes());
      from += floats.size_bytes();
      return floats;
    };
    each_piece(
        into.size(),
        [&](std::size_t begin, std::size_t count) {
          add(into.subspan(begin, count), take(q_, count));
        },
        [&](const Fold& fold, std::size_t rank) {
          const auto p = take(p_, rank * fold.rows);
          const auto q = take(q_, rank * fold.columns);
          add_product(p, q, fold, rank, 1, into.subspan(fold.begin, fold.rows * fold.columns));
        });
  }

  std::size_t largest_code_bytes(std::size_t elements) const override {
    std::size_t floats = 0;
    each_piece(
        elements, [&](std::size_t, std::size_t count) { floats += count; },
        [&](const Fold& fold, std::size_t rank) { floats += rank * (fold.rows + fold.columns); });
    return floats * sizeof(float);
  }

  void visit_state(State state) override {
    state("random", random_);
    state("warm_size", warm_size_);
    state.of_any_length("warm", warm_);
  }

 private:
  static std::size_t end_of(const Fold& fold) { return fold.begin + fold.rows * fold.columns; }

  // Calls raw(begin, count) or matrix(fold, its rank) for all pieces of the vector in their order.
  template <class Raw, class Matrix>
  void each_piece(std::size_t elements, const Raw& raw, const Matrix& matrix) const {
    std::size_t raw_from = 0;
    const auto visit = [&](const Fold& fold) {
      STARLING_CHECK(end_of(fold) <= elements, "a fold to {} of {} elements", end_of(fold),
                     elements);
      const std::size_t rank = std::min({rank_, fold.rows, fold.columns});
      if (rank * (fold.rows + fold.columns) >= fold.rows * fold.columns) return;
      if (raw_from < fold.begin) raw(raw_from, fold.begin - raw_from);
      matrix(fold, rank);
      raw_from = end_of(fold);
    };
    if (folds_.empty() && elements > 0) {
      const auto rows = static_cast<std::size_t>(std::sqrt(static_cast<double>(elements)));
      visit({0, rows, elements / rows});
    }
    for (const Fold& fold : folds_) visit(fold);
    if (raw_from < elements) raw(raw_from, elements - raw_from);
  }

  // All p are NaN if there is no telling because the matrix has infinities or NaNs, or its sums are.
  static void power_iteration(std::span<const float> matrix, const Fold& fold, std::size_t rank,
                              std::span<float> p, std::span<float> q) {
    const auto row = [&](std::size_t i) { return matrix.subspan(i * fold.columns, fold.columns); };
    const auto column_of_q = [&](std::size_t k) {
      return q.subspan(k * fold.columns, fold.columns);
    };
    for (std::size_t i = 0; i < fold.rows; ++i) {
      for (std::size_t k = 0; k < rank; ++k) {
        p[k * fold.rows + i] = static_cast<float>(dot(row(i), column_of_q(k)));
      }
    }
    if (!orthonormalize(p, fold.rows)) {
      std::ranges::fill(p, std::numeric_limits<float>::quiet_NaN());
    }
    std::ranges::fill(q, 0.0f);
    for (std::size_t i = 0; i < fold.rows; ++i) {
      for (std::size_t k = 0; k < rank; ++k) {
        subtract_scaled(column_of_q(k), row(i), -p[k * fold.rows + i]);
      }
    }
  }

  // Squares of what is small would vanish in floats.
  static double length(std::span<const float> column) {
    double squares = 0;
    for (const float value : column)
      squares += static_cast<double>(value) * static_cast<double>(value);
    return std::sqrt(squares);
  }

  // Gram and Schmidt, twice, as once is not enough where columns are nearly alike. A column that
  // the others make up, but for rounding, becomes zero. False if one is not finite.
  static bool orthonormalize(std::span<float> p, std::size_t rows) {
    constexpr double kRounding = 1e-5;
    for (std::size_t begin = 0; begin < p.size(); begin += rows) {
      const auto column = p.subspan(begin, rows);
      const double before = length(column);
      if (!std::isfinite(before)) return false;
      if (before == 0) continue;
      for (float& value : column) value = static_cast<float>(value / before);
      for (int time = 0; time < 2; ++time) {
        for (std::size_t other = 0; other < begin; other += rows) {
          const auto unit = p.subspan(other, rows);
          subtract_scaled(column, unit, static_cast<float>(dot(column, unit)));
        }
      }
      const double after = length(column);
      scale(column, after > kRounding ? static_cast<float>(1 / after) : 0.0f);
    }
    return true;
  }

  // into += sign P Q^T. The product is rounded before it is added, whatever the sign.
  void add_product(std::span<const float> p, std::span<const float> q, const Fold& fold,
                   std::size_t rank, float sign, std::span<float> into) const {
    const auto product = room(row_, fold.columns);
    for (std::size_t i = 0; i < fold.rows; ++i) {
      std::ranges::fill(product, 0.0f);
      for (std::size_t k = 0; k < rank; ++k) {
        subtract_scaled(product, q.subspan(k * fold.columns, fold.columns),
                        -sign * p[k * fold.rows + i]);
      }
      add(into.subspan(i * fold.columns, fold.columns), product);
    }
  }

  // The next vector's Q: its length does not matter, but that it neither vanishes nor overflows does.
  void keep_warm(std::span<float> column) {
    const double before = length(column);
    if (before > 0 && std::isfinite(before)) {
      for (float& value : column) value = static_cast<float>(value / before);
    } else {
      for (float& value : column) value = static_cast<float>(random_.normal());
    }
  }

  std::size_t warm_floats(std::size_t elements) const {
    std::size_t floats = 0;
    each_piece(
        elements, [](std::size_t, std::size_t) {},
        [&](const Fold& fold, std::size_t rank) { floats += rank * fold.columns; });
    return floats;
  }

  void forget(std::size_t elements) {
    warm_size_ = elements;
    warm_.resize(warm_floats(elements));
    for (float& value : warm_) value = static_cast<float>(random_.normal());
  }

  // Working memory never shrinks.
  static std::span<float> room(std::vector<float>& memory, std::size_t count) {
    if (memory.size() < count) memory.resize(count);
    return std::span(memory).first(count);
  }

  std::size_t rank_;
  std::vector<Fold> folds_;
  Random random_;
  std::vector<float> warm_;    // the columns of all Q
  std::size_t warm_size_ = 0;  // of the vector that they are for
  mutable std::vector<float> p_, q_, row_;
};

}  // namespace

std::unique_ptr<Codec> make_low_rank(const CodecSettings& settings, const CodecStream& stream) {
  return std::make_unique<LowRank>(settings, stream);
}

}  // namespace starling
