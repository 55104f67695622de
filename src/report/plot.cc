#include "report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace starling {

namespace {

constexpr double kWidth = 860, kHeight = 520;
constexpr double kLeft = 80, kRight = 200, kTop = 46, kBottom = 62;  // margins; the key is right
constexpr std::array<const char*, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#000000", "#8c6d00"};

std::string escaped(const std::string& text) {
  std::string safe;
  for (char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:  // control characters are not allowed in XML, not even escaped
        safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return safe;
}

// From data to drawing, along one axis.
class Scale {
 public:
  Scale(const Plot::Axis& axis, double low, double high, double from, double to)
      : logarithmic_(axis.logarithmic), from_(from), to_(to) {
    low_ = along(low);
    high_ = along(high);
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

std::string mark(std::size_t shape, double x, double y, const char* colour) {
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

std::string text(double x, double y, const char* anchor, const std::string& words,
                 const std::string& more = "") {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" {}>{}</text>)"
                     "\n",
                     x, y, anchor, more, escaped(words));
}

std::string number(const Plot::Axis& axis, double value) {
  return axis.format ? axis.format(value) : fmt::format("{:g}", value);
}

}  // namespace

std::string Plot::svg() const {
  std::vector<Point> all;
  for (const Series& each : series) {
    for (const Point& point : each.points) {
      const bool fits = std::isfinite(point.x) && std::isfinite(point.y) &&
                        (!x.logarithmic || point.x > 0) && (!y.logarithmic || point.y > 0);
      if (fits) all.push_back(point);
    }
  }
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13">)"
      "\n"
      R"(<rect width="{0}" height="{1}" fill="#ffffff"/>)"
      "\n",
      kWidth, kHeight);
  out += text(kLeft, 26, "start", title, R"(font-size="16" font-weight="bold")");
  if (all.empty()) {
    return out + text(kWidth / 2, kHeight / 2, "middle", "no data") + "</svg>\n";
  }
  const auto [left, right] = std::ranges::minmax(all, {}, &Point::x);
  const auto [lowest, highest] = std::ranges::minmax(all, {}, &Point::y);
  const double bottom = kHeight - kBottom, end = kWidth - kRight;
  const Scale across(x, left.x, right.x, kLeft, end);
  const Scale up(y, lowest.y, highest.y, bottom, kTop);

  for (double tick : across.ticks()) {
    out +=
        fmt::format(R"(<path d="M{0:.1f} {1}V{2}" stroke="#dddddd"/>)", across(tick), kTop, bottom);
    out += text(across(tick), bottom + 20, "middle", number(x, tick));
  }
  for (double tick : up.ticks()) {
    out += fmt::format(R"(<path d="M{0} {1:.1f}H{2}" stroke="#dddddd"/>)", kLeft, up(tick), end);
    out += text(kLeft - 8, up(tick) + 4, "end", number(y, tick));
  }
  out += fmt::format(R"(<path d="M{} {}V{}H{}" fill="none" stroke="#333333"/>)"
                     "\n",
                     kLeft, kTop, bottom, end);
  out += text((kLeft + end) / 2, kHeight - 18, "middle", x.label);
  out += text(20, (kTop + bottom) / 2, "middle", y.label,
              fmt::format(R"x(transform="rotate(-90 20 {:.1f})")x", (kTop + bottom) / 2));

  for (std::size_t i = 0; i < series.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    std::string path;
    for (const Point& point : series[i].points) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
      path +=
          fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", across(point.x), up(point.y));
      if (!series[i].line) out += mark(i, across(point.x), up(point.y), colour);
    }
    if (series[i].line) {
      out +=
          fmt::format(R"(<path d="{}" fill="none" stroke="{}" stroke-width="2"/>)", path, colour);
    }
    const double row = kTop + 14 + 22 * static_cast<double>(i);
    out += series[i].line ? fmt::format(R"(<path d="M{} {}h18" stroke="{}" stroke-width="2"/>)",
                                        end + 14, row - 4, colour)
                          : mark(i, end + 23, row - 4, colour);
    out += text(end + 40, row, "start", series[i].name);
  }
  for (const Note& note : notes) {
    const bool rightwards = across(note.at.x) < (kLeft + end) / 2;
    out += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="9" fill="none" stroke="#333333"/>)",
                       across(note.at.x), up(note.at.y));
    out += text(across(note.at.x) + (rightwards ? 14 : -14), up(note.at.y) + 18,
                rightwards ? "start" : "end", note.text, R"(font-size="12")");
  }
  return out + "</svg>\n";
}

}  // namespace starling
