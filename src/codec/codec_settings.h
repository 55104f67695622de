// Which codec, and what it is told.
#pragma once

#include <string>

#include "base/names.h"
#include "base/setting.h"

namespace starling {

// Between these a threshold is, and an adaptive one remains: below the first no step of training
// would notice, and both are far from where a float's arithmetic ends.
inline constexpr double kSmallestThreshold = 1e-12, kLargestThreshold = 1e12;

struct CodecSettings {
  enum class Kind { raw, half, bfloat, threshold, top_k };
  friend constexpr Names<5> names_of(Kind) {
    return {"codec", {"raw", "half", "bfloat", "threshold", "top-k"}};
  }

  Kind kind = Kind::raw;
  double share = 0.01;      // top-k: this share of the elements is sent, and at least one element
  double threshold = 1e-3;  // threshold: what an element must reach to be sent
  bool adaptive = false;    // threshold: moves it so that 1e-4 to 1e-2 of the elements are sent
  bool entropy = false;     // zstd over the code, where that makes it shorter

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    const Use with_threshold{s.kind == Kind::threshold, "codec threshold"};
    visit({"codec", Section::sent,
           "mixing mean and updates: what is sent: " + names_listed<Kind>(" or ")},
          s.kind);
    visit({"codec_share",
           Section::sent,
           "top-k: the share of elements that is sent",
           {s.kind == Kind::top_k, "codec top-k"}},
          s.share, 1e-9, 1.0);
    visit({"codec_threshold", Section::sent, "threshold: what an element must reach to be sent",
           with_threshold},
          s.threshold, kSmallestThreshold, kLargestThreshold);
    visit({"codec_adaptive", Section::sent,
           "threshold: move it so that 0.01 to 1 % of the elements are sent", with_threshold},
          s.adaptive);
    visit({"codec_entropy",
           Section::sent,
           "compress codes by zstd where that makes them shorter",
           {s.kind != Kind::raw, "codecs other than raw"}},
          s.entropy);
  }
};

}  // namespace starling
