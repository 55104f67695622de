// What drawings are made of: scales, marks, words.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "report/escape.h"
#include "report/plot.h"

namespace starling {

inline constexpr double kWidth = 860;
inline constexpr double kLetter = 7;  // about as wide as one is
inline constexpr std::array<const char*, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                        "#e69f00", "#56b4e9", "#000000", "#8c6d00"};
inline constexpr const char* kQuiet = "#cccccc";  // what only stands behind

inline const char* colour_of(std::size_t i) { return kColours[i % kColours.size()]; }

// From data to drawing, along one axis.
class Scale {
 public:
  Scale(const Plot::Axis& axis, double low, double high, double from, double to)
      : logarithmic_(axis.logarithmic), from_(from), to_(to) {
    low_ = along(low);
    high_ = along(high);
    STARLING_CHECK(std::isfinite(low_) && std::isfinite(high_), "an axis from {} to {}", low, high);
    const double margin = high_ > low_ ? (high_ - low_) * 0.04 : 0.5;
    low_ -= margin;
    high_ += margin;
  }

  double operator()(double value) const {
    return from_ + (along(value) - low_) / (high_ - low_) * (to_ - from_);
  }

  // Round numbers, five or so; powers of ten on a logarithmic axis, and between them if few.
  std::vector<double> ticks() const {
    std::vector<double> values;
    if (logarithmic_) {
      const bool few = high_ - low_ < 2.5;
      for (double decade = std::floor(low_); decade <= high_; ++decade) {
        for (double factor : few ? std::vector<double>{1, 2, 5} : std::vector<double>{1}) {
          const double value = std::pow(10, decade) * factor;
          if (along(value) >= low_ && along(value) <= high_) values.push_back(value);
        }
      }
      return values;
    }
    const double rough = (high_ - low_) / 6;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    double step = power;
    for (double factor : {2.0, 5.0, 10.0}) {
      if (step < rough) step = power * factor;
    }
    for (double value = std::ceil(low_ / step) * step; value <= high_ + step * 1e-9;
         value += step) {
      values.push_back(std::abs(value) < step * 1e-9 ? 0 : value);
    }
    return values;
  }

 private:
  double along(double value) const { return logarithmic_ ? std::log10(value) : value; }

  bool logarithmic_;
  double low_, high_, from_, to_;
};

inline std::string mark(std::size_t shape, double x, double y, const char* colour) {
  constexpr double r = 4.5;
  switch (shape % 4) {
    case 0:
      return fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="{}" fill="{}"/>)", x, y, r, colour);
    case 1:
      return fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{}" height="{}" fill="{}"/>)", x - r,
                         y - r, 2 * r, 2 * r, colour);
    case 2:
      return fmt::format(R"(<path d="M{:.1f} {:.1f}l{} {}h{}z" fill="{}"/>)", x, y - r - 1, r + 1,
                         2 * r, -2 * r - 2, colour);
    default:
      return fmt::format(R"(<path d="M{:.1f} {:.1f}l{} {}l{} {}l{} {}z" fill="{}"/>)", x, y - r - 1,
                         r + 1, r + 1, -r - 1, r + 1, -r - 1, -r - 1, colour);
  }
}

inline std::string text(double x, double y, const char* anchor, const std::string& words,
                        const std::string& more = "") {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" {}>{}</text>)"
                     "\n",
                     x, y, anchor, more, escaped_for_markup(words));
}

inline std::string number(const Plot::Axis& axis, double value) {
  return axis.format ? axis.format(value) : fmt::format("{:g}", value);
}

// What does not fit its place has dots in its middle: names often begin alike, and differ at the end.
inline std::string shortened(const std::string& words, double width) {
  const auto letters = static_cast<std::size_t>(std::max(3.0, width / kLetter));
  if (words.size() <= letters) return words;
  const std::size_t front = (letters - 1) / 2;
  return words.substr(0, front) + "…" + words.substr(words.size() - (letters - 1 - front));
}

inline std::string head_of(const std::string& title, double height) {
  return fmt::format(
             R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13">)"
             "\n"
             R"(<rect width="{0}" height="{1}" fill="#ffffff"/>)"
             "\n",
             kWidth, height) +
         text(24, 26, "start", shortened(title, 1.2 * kWidth),
              R"(font-size="16" font-weight="bold")");
}

}  // namespace starling
