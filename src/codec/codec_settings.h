// Which codec, and what it is told.
#pragma once

#include <string>

#include "base/names.h"
#include "base/setting.h"

namespace starling {

// Between these a threshold is, and an adaptive one remains: below the first no step of training
// would notice, and both are far from where a float's arithmetic ends.
inline constexpr double kSmallestThreshold = 1e-12, kLargestThreshold = 1e12;

// A level must fit into a byte beside its sign.
inline constexpr int kMostLevels = 127;
inline constexpr int kSmallestBlock = 8, kLargestBlock = 1 << 20;
inline constexpr int kMostRank = 64;

struct CodecSettings {
  enum class Kind {
    raw,
    half,
    bfloat,
    threshold,
    top_k,
    random,
    quantized,
    hierarchical,
    sign,
    low_rank
  };
  friend constexpr Names<10> names_of(Kind) {
    return {"codec",
            {"raw", "half", "bfloat", "threshold", "top-k", "random", "quantized", "hierarchical",
             "sign", "low-rank"}};
  }

  Kind kind = Kind::raw;
  double share = 0.01;      // top-k, random: this share of the elements is sent, and at least one
  double threshold = 1e-3;  // threshold: what an element must reach to be sent
  bool adaptive = false;    // threshold: moves it so that 1e-4 to 1e-2 of the elements are sent
  int levels = 7;           // quantized, hierarchical: above zero, and as many below
  int block = 128;          // quantized, hierarchical, sign: so many elements share a norm
  int rank = 4;             // low-rank: of what stands for a matrix
  bool feedback = true;     // whoever encodes adds what a code leaves out to the next vector
  bool entropy = false;     // zstd over the code, where that makes it shorter

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    const auto with = [&](std::string kinds, auto... kind) {
      return Use{((s.kind == kind) || ...), "codec " + kinds};
    };
    const Use with_threshold = with("threshold", Kind::threshold);
    const Use not_raw{s.kind != Kind::raw, "codecs other than raw"};
    visit({"codec", Section::sent,
           "what is sent for gradients, weights or their changes: " + names_listed<Kind>(" or ")},
          s.kind);
    visit({"codec_share", Section::sent, "top-k, random: the share of elements that is sent",
           with("top-k or random", Kind::top_k, Kind::random)},
          s.share, 1e-9, 1.0);
    visit({"codec_threshold", Section::sent, "threshold: what an element must reach to be sent",
           with_threshold},
          s.threshold, kSmallestThreshold, kLargestThreshold);
    visit({"codec_adaptive", Section::sent,
           "threshold: move it so that 0.01 to 1 % of the elements are sent", with_threshold},
          s.adaptive);
    visit({"codec_levels", Section::sent,
           "quantized, hierarchical: how many levels an element has above zero, and below",
           with("quantized or hierarchical", Kind::quantized, Kind::hierarchical)},
          s.levels, 1, kMostLevels);
    visit(
        {"codec_block", Section::sent,
         "quantized, hierarchical, sign: how many elements share a norm",
         with("quantized, hierarchical or sign", Kind::quantized, Kind::hierarchical, Kind::sign)},
        s.block, kSmallestBlock, kLargestBlock);
    visit({"codec_rank", Section::sent, "low-rank: the rank of what is sent for a matrix",
           with("low-rank", Kind::low_rank)},
          s.rank, 1, kMostRank);
    visit({"codec_feedback", Section::sent,
           "add what a code leaves out to the next vector; without it what is drawn is unbiased",
           not_raw},
          s.feedback);
    visit({"codec_entropy", Section::sent, "compress codes by zstd where that makes them shorter",
           not_raw},
          s.entropy);
  }
};

}  // namespace starling
