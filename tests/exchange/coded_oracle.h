// The coded mean by plain maths: the same codecs, in the same order, in one thread and without anybody
// to talk to.
#pragma once

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "exchange/coded_allreduce.h"
#include "math/vector_math.h"

namespace starling {

// One encoder with its residual.
class Coder {
 public:
  Coder(const CodecSettings& settings, std::uint64_t seed, std::uint64_t rank, std::uint64_t use,
        Range range, const std::vector<Fold>& folds)
      : feedback_(settings.feedback),
        codec_(make_codec(settings, {Random{seed, rank, use}.bits(), folds_in(folds, range)})),
        residual_(range.size()) {}

  // What the others decode.
  std::vector<float> coded(std::vector<float> values, std::size_t& code_bytes) {
    if (feedback_) add(values, residual_);
    codec_->encode(values, code_);
    residual_ = values;
    code_bytes = code_.size();
    std::vector<float> decoded(values.size());
    codec_->add_decoded(code_, decoded);
    return decoded;
  }
  const std::vector<float>& residual() const { return residual_; }

 private:
  bool feedback_;
  std::unique_ptr<Codec> codec_;
  std::vector<float> residual_;
  std::vector<std::byte> code_;
};

class CodedOracle {
 public:
  CodedOracle(int size, std::size_t elements, const CodecSettings& settings, std::uint64_t seed,
              const std::vector<Fold>& folds = {})
      : sent(static_cast<std::size_t>(size)), owners_(goes_through_owners(settings.kind, size)) {
    const std::size_t n = sent.size();
    parts_ = owners_ ? owned_parts(elements, size, folds) : std::vector<Range>{{0, elements}};
    for (std::size_t rank = 0; rank < n; ++rank) {
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        coders_.emplace_back(settings, seed, rank, owners_ ? i : rank, parts_[i], folds);
      }
    }
    for (std::size_t i = 0; owners_ && i < n; ++i) {
      means_.emplace_back(settings, seed, i, n, parts_[i], folds);
    }
  }

  std::vector<float> mean(const std::vector<std::vector<float>>& values) {
    const std::size_t n = sent.size();
    if (n == 1) return values[0];
    std::vector<float> result(values[0].size());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Range range = parts_[i];
      if (range.size() == 0) continue;
      std::vector<float> sum(range.size());
      std::size_t bytes = 0;
      for (std::size_t rank = 0; rank < n; ++rank) {
        const auto begin = values[rank].begin() + static_cast<std::ptrdiff_t>(range.begin);
        add(sum, coder(rank, i).coded({begin, begin + static_cast<std::ptrdiff_t>(range.size())},
                                      bytes));
        if (!owners_) sent[rank] += (n - 1) * bytes;
        if (owners_ && rank != i) sent[rank] += bytes;
      }
      scale(sum, 1.0f / static_cast<float>(n));
      if (owners_) {
        sum = means_[i].coded(sum, bytes);
        sent[i] += (n - 1) * bytes;
      }
      std::ranges::copy(sum, result.begin() + static_cast<std::ptrdiff_t>(range.begin));
    }
    return result;
  }

  // What has not been applied yet of the mean.
  std::vector<double> residual(std::size_t elements) {
    std::vector<double> left(elements);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      for (std::size_t e = 0; e < parts_[i].size(); ++e) {
        double& at = left[parts_[i].begin + e];
        for (std::size_t rank = 0; rank < sent.size(); ++rank) {
          at +=
              static_cast<double>(coder(rank, i).residual()[e]) / static_cast<double>(sent.size());
        }
        if (owners_) at += static_cast<double>(means_[i].residual()[e]);
      }
    }
    return left;
  }

  // The share of it that a rank has to add to a last mean.
  std::vector<float> left_out(std::size_t rank, std::size_t elements) {
    std::vector<float> left(elements);
    for (std::size_t i = 0; sent.size() > 1 && i < parts_.size(); ++i) {
      const std::span<float> part = std::span(left).subspan(parts_[i].begin, parts_[i].size());
      add(part, coder(rank, i).residual());
      if (owners_ && rank == i) {
        subtract_scaled(part, means_[i].residual(), -static_cast<float>(sent.size()));
      }
    }
    return left;
  }

  std::vector<std::uint64_t> sent;  // bytes, by rank

 private:
  Coder& coder(std::size_t rank, std::size_t i) { return coders_[rank * parts_.size() + i]; }

  bool owners_;
  std::vector<Range> parts_;
  std::vector<Coder> coders_;
  std::vector<Coder> means_;
};

}  // namespace starling
