#include "report/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <ranges>

#include "report/bar_rows.h"
#include "report/drawing.h"

namespace starling {

namespace {

constexpr double kHeight = 520;
constexpr double kLeft = 112, kRight = 200, kTop = 46;  // margins; the key is right
constexpr double kEnd = kWidth - kRight, kFloor = kHeight - 62;

// On a logarithmic axis only what is above 0 has a place.
bool drawable(const Plot& plot, const Plot::Point& point) {
  return std::isfinite(point.x) && std::isfinite(point.y) && (!plot.x.logarithmic || point.x > 0) &&
         (!plot.y.logarithmic || point.y > 0);
}

double room_for_category(const Plot& plot) {
  return (kEnd - kLeft) / static_cast<double>(plot.categories.size());
}

// Whether names do not fit side by side.
bool is_crowded(const Plot& plot) {
  return std::ranges::any_of(plot.categories, [&](const std::string& name) {
    return kLetter * static_cast<double>(name.size()) > room_for_category(plot);
  });
}

class Drawing {
 public:
  Drawing(const Plot& plot, const std::vector<Plot::Point>& all)
      : plot_(plot), across_(x_scale(plot, all)), up_(y_scale(all)) {}

  std::string axes() const {
    std::string out;
    const std::size_t names = plot_.categories.size();
    for (std::size_t i = 0; i < names; ++i) {
      out += text(across_(static_cast<double>(i)), kFloor + 20, "middle", plot_.categories[i]);
    }
    for (double tick : names > 0 ? std::vector<double>{} : across_.ticks()) {
      out += fmt::format(R"(<path d="M{0:.1f} {1}V{2}" stroke="#dddddd"/>)", across_(tick), kTop,
                         kFloor);
      out += text(across_(tick), kFloor + 20, "middle", number(plot_.x, tick));
    }
    for (double tick : up_.ticks()) {
      out +=
          fmt::format(R"(<path d="M{0} {1:.1f}H{2}" stroke="#dddddd"/>)", kLeft, up_(tick), kEnd);
      out += text(kLeft - 8, up_(tick) + 4, "end", number(plot_.y, tick));
    }
    out += fmt::format(R"(<path d="M{} {}V{}H{}" fill="none" stroke="#333333"/>)"
                       "\n",
                       kLeft, kTop, kFloor, kEnd);
    out += text((kLeft + kEnd) / 2, kHeight - 18, "middle", plot_.x.label);
    const double middle = (kTop + kFloor) / 2;
    return out + text(20, middle, "middle", plot_.y.label,
                      fmt::format(R"x(transform="rotate(-90 20 {:.1f})")x", middle));
  }

  // Quiet lines come first, so that the others lie on them. A page finds each by its number.
  std::string series() const {
    std::string quiet, loud, key;
    const auto in_key = std::ranges::count(plot_.series, false, &Plot::Series::quiet);
    const double spacing =
        std::min(22.0, (kHeight - kTop - 20) / static_cast<double>(std::max(1L, in_key)));
    std::map<double, double> tops;  // of the bars so far, by place
    double row = kTop + 14;
    std::size_t colour = 0;
    for (std::size_t i = 0; i < plot_.series.size(); ++i) {
      const Plot::Series& each = plot_.series[i];
      const std::string head = fmt::format(R"(<g data-series="{}">)", i);
      if (each.quiet) {
        quiet += head + line(each, colour, kQuiet) + "</g>\n";
        continue;
      }
      loud += head +
              (each.kind == Plot::Kind::line   ? line(each, colour, colour_of(colour))
               : each.kind == Plot::Kind::bars ? bars(each, colour, tops)
                                               : marks(each, colour)) +
              "</g>\n";
      key += each.kind == Plot::Kind::line   ? line_in_key(colour, row)
             : each.kind == Plot::Kind::bars ? mark(1, kEnd + 23, row - 4, colour_of(colour))
                                             : mark(colour, kEnd + 23, row - 4, colour_of(colour));
      key += text(kEnd + 40, row, "start", shortened(each.name, kRight - 40));
      row += spacing;
      ++colour;
    }
    return quiet + loud + "<g class=\"key\">" + key + "</g>\n";
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
    if (!has_bars(plot_)) return Scale(plot_.y, low.y, high.y, kFloor, kTop);
    std::map<double, double> stacks;
    for (const Plot::Point& point : all) stacks[point.x] += point.y;
    const double top = std::ranges::max(stacks | std::views::values);
    return Scale(plot_.y, 0, top, kFloor, kTop);
  }

  bool fits(const Plot::Point& point) const { return drawable(plot_, point); }

  std::string marks(const Plot::Series& series, std::size_t i) const {
    std::string out;
    for (const Plot::Point& point : series.points) {
      if (fits(point)) out += mark(i, across_(point.x), up_(point.y), colour_of(i));
    }
    return out;
  }
  std::string line(const Plot::Series& series, std::size_t i, const char* colour) const {
    std::string path;
    for (const Plot::Point& point : series.points) {
      if (!fits(point)) continue;
      path +=
          fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", across_(point.x), up_(point.y));
    }
    // A single point would not be seen.
    if (series.points.size() == 1) path += "h.1";
    return fmt::format(
        R"(<path d="{}" fill="none" stroke="{}" stroke-width="{}" stroke-linecap="round"{}/>)",
        path, colour,
        series.quiet                ? "1"
        : series.points.size() == 1 ? "9"
                                    : "2",
        series.quiet ? "" : dashes(i));
  }
  std::string line_in_key(std::size_t i, double row) const {
    return fmt::format(R"(<path d="M{} {}h24" stroke="{}" stroke-width="2"{}/>)", kEnd + 10,
                       row - 4, colour_of(i), dashes(i));
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
                      from, head, to - from, std::max(0.0, foot - head), colour_of(i));
    }
    return out;
  }

  const Plot& plot_;
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
  if (is_crowded(*this)) return bar_rows(*this);
  std::string out = head_of(title, kHeight);
  if (all.empty()) {
    return out + text(kWidth / 2, kHeight / 2, "middle", "no data") + "</svg>\n";
  }
  const Drawing drawing(*this, all);
  return out + drawing.axes() + drawing.series() + drawing.notes() + "</svg>\n";
}

}  // namespace starling
