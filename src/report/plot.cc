#include "report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <ranges>

#include "base/check.h"
#include "report/escape.h"

namespace starling {

namespace {

constexpr double kWidth = 860, kHeight = 520;
constexpr double kLeft = 112, kRight = 200, kTop = 46;  // margins; the key is right
constexpr double kEnd = kWidth - kRight;
constexpr double kLetter = 7;  // about as wide as one is
constexpr std::array<const char*, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#000000", "#8c6d00"};

// On a logarithmic axis only what is above 0 has a place.
bool drawable(const Plot& plot, const Plot::Point& point) {
  return std::isfinite(point.x) && std::isfinite(point.y) && (!plot.x.logarithmic || point.x > 0) &&
         (!plot.y.logarithmic || point.y > 0);
}

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
                     x, y, anchor, more, escaped_for_markup(words));
}

std::string number(const Plot::Axis& axis, double value) {
  return axis.format ? axis.format(value) : fmt::format("{:g}", value);
}

// What does not fit its place ends in dots.
std::string shortened(const std::string& words, double width) {
  const auto letters = static_cast<std::size_t>(std::max(3.0, width / kLetter));
  return words.size() <= letters ? words : words.substr(0, letters - 1) + "…";
}

double room_for_category(const Plot& plot) {
  return (kEnd - kLeft) / static_cast<double>(plot.categories.size());
}

// Names that do not fit side by side stand aslant.
bool is_crowded(const Plot& plot) {
  return std::ranges::any_of(plot.categories, [&](const std::string& name) {
    return kLetter * static_cast<double>(name.size()) > room_for_category(plot);
  });
}

class Drawing {
 public:
  Drawing(const Plot& plot, const std::vector<Plot::Point>& all)
      : plot_(plot),
        crowded_(is_crowded(plot)),
        floor_(kHeight - (crowded_ ? 150 : 62)),
        across_(x_scale(plot, all)),
        up_(y_scale(all)) {}

  std::string axes() const {
    std::string out;
    const std::size_t names = plot_.categories.size();
    for (std::size_t i = 0; i < names; ++i) {
      const double x = across_(static_cast<double>(i));
      const std::string& name = plot_.categories[i];
      out += crowded_ ? text(x + 4, floor_ + 14, "end", shortened(name, 190),
                             fmt::format(R"x(font-size="11" transform="rotate(-40 {:.1f} {})")x",
                                         x + 4, floor_ + 14))
                      : text(x, floor_ + 20, "middle", name);
    }
    for (double tick : names > 0 ? std::vector<double>{} : across_.ticks()) {
      out += fmt::format(R"(<path d="M{0:.1f} {1}V{2}" stroke="#dddddd"/>)", across_(tick), kTop,
                         floor_);
      out += text(across_(tick), floor_ + 20, "middle", number(plot_.x, tick));
    }
    for (double tick : up_.ticks()) {
      out +=
          fmt::format(R"(<path d="M{0} {1:.1f}H{2}" stroke="#dddddd"/>)", kLeft, up_(tick), kEnd);
      out += text(kLeft - 8, up_(tick) + 4, "end", number(plot_.y, tick));
    }
    out += fmt::format(R"(<path d="M{} {}V{}H{}" fill="none" stroke="#333333"/>)"
                       "\n",
                       kLeft, kTop, floor_, kEnd);
    out += text((kLeft + kEnd) / 2, kHeight - 18, "middle", plot_.x.label);
    const double middle = (kTop + floor_) / 2;
    return out + text(20, middle, "middle", plot_.y.label,
                      fmt::format(R"x(transform="rotate(-90 20 {:.1f})")x", middle));
  }

  std::string series() const {
    std::string out;
    const double spacing =
        std::min(22.0, (kHeight - kTop - 20) / static_cast<double>(plot_.series.size()));
    std::map<double, double> tops;  // of the bars so far, by place
    for (std::size_t i = 0; i < plot_.series.size(); ++i) {
      const Plot::Series& each = plot_.series[i];
      const double row = kTop + 14 + spacing * static_cast<double>(i);
      out += each.kind == Plot::Kind::line ? line(each, i) + line_in_key(i, row)
             : each.kind == Plot::Kind::bars
                 ? bars(each, i, tops) + mark(1, kEnd + 23, row - 4, colour(i))
                 : marks(each, i) + mark(i, kEnd + 23, row - 4, colour(i));
      out += text(kEnd + 40, row, "start", shortened(each.name, kRight - 40));
    }
    return out;
  }

  std::string notes() const {
    std::string out;
    for (const Plot::Note& note : plot_.notes) {
      const double x = across_(note.at.x), y = up_(note.at.y);
      if (!plot_.categories.empty()) {
        const double letters = static_cast<double>(std::max<std::size_t>(1, note.text.size()));
        const double size = std::clamp(room_for_category(plot_) / (0.62 * letters), 8.0, 13.0);
        out += text(x, y - 6, "middle", note.text, fmt::format(R"(font-size="{:.1f}")", size));
        continue;
      }
      const bool rightwards = x < (kLeft + kEnd) / 2;
      out += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="9" fill="none" stroke="#333333"/>)",
                         x, y);
      out += text(x + (rightwards ? 16 : -16), y - 10, rightwards ? "start" : "end", note.text,
                  R"(font-size="12")");
    }
    return out;
  }

 private:
  static bool has_bars(const Plot& plot) {
    return std::ranges::any_of(plot.series,
                               [](const auto& each) { return each.kind == Plot::Kind::bars; });
  }
  // Bars are half a unit wide to each side, and begin at 0.
  static Scale x_scale(const Plot& plot, const std::vector<Plot::Point>& all) {
    const auto [low, high] = std::ranges::minmax(all, {}, &Plot::Point::x);
    const double room = has_bars(plot) ? 0.5 : 0;
    return Scale(plot.x, low.x - room, high.x + room, kLeft, kEnd);
  }
  Scale y_scale(const std::vector<Plot::Point>& all) const {
    const auto [low, high] = std::ranges::minmax(all, {}, &Plot::Point::y);
    if (!has_bars(plot_)) return Scale(plot_.y, low.y, high.y, floor_, kTop);
    std::map<double, double> stacks;
    for (const Plot::Point& point : all) stacks[point.x] += point.y;
    const double top = std::ranges::max(stacks | std::views::values);
    return Scale(plot_.y, 0, top, floor_, kTop);
  }

  static const char* colour(std::size_t i) { return kColours[i % kColours.size()]; }

  bool fits(const Plot::Point& point) const { return drawable(plot_, point); }

  std::string marks(const Plot::Series& series, std::size_t i) const {
    std::string out;
    for (const Plot::Point& point : series.points) {
      if (fits(point)) out += mark(i, across_(point.x), up_(point.y), colour(i));
    }
    return out;
  }
  std::string line(const Plot::Series& series, std::size_t i) const {
    std::string path;
    for (const Plot::Point& point : series.points) {
      if (!fits(point)) continue;
      path +=
          fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", across_(point.x), up_(point.y));
    }
    // A single point would not be seen.
    if (series.points.size() == 1) return marks(series, i);
    return fmt::format(R"(<path d="{}" fill="none" stroke="{}" stroke-width="2"{}/>)", path,
                       colour(i), dashes(i));
  }
  std::string line_in_key(std::size_t i, double row) const {
    return fmt::format(R"(<path d="M{} {}h24" stroke="{}" stroke-width="2"{}/>)", kEnd + 10,
                       row - 4, colour(i), dashes(i));
  }
  static const char* dashes(std::size_t i) {
    constexpr std::array<const char*, 3> kDashes = {"", R"( stroke-dasharray="7 3")",
                                                    R"( stroke-dasharray="2 3")"};
    return kDashes[i % kDashes.size()];
  }
  std::string bars(const Plot::Series& series, std::size_t i,
                   std::map<double, double>& tops) const {
    std::string out;
    for (const Plot::Point& point : series.points) {
      if (!fits(point)) continue;
      const double from = across_(point.x - 0.4), to = across_(point.x + 0.4);
      double& top = tops[point.x];
      const double foot = up_(top), head = up_(top += point.y);
      out +=
          fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"/>)",
                      from, head, to - from, std::max(0.0, foot - head), colour(i));
    }
    return out;
  }

  const Plot& plot_;
  const bool crowded_;
  const double floor_;
  Scale across_, up_;
};

}  // namespace

std::string Plot::svg() const {
  std::vector<Point> all;
  for (const Series& each : series) {
    for (const Point& point : each.points) {
      if (drawable(*this, point)) all.push_back(point);
    }
  }
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13">)"
      "\n"
      R"(<rect width="{0}" height="{1}" fill="#ffffff"/>)"
      "\n",
      kWidth, kHeight);
  out += text(kLeft, 26, "start", shortened(title, 1.2 * kWidth),
              R"(font-size="16" font-weight="bold")");
  if (all.empty()) {
    return out + text(kWidth / 2, kHeight / 2, "middle", "no data") + "</svg>\n";
  }
  const Drawing drawing(*this, all);
  return out + drawing.axes() + drawing.series() + drawing.notes() + "</svg>\n";
}

}  // namespace starling
