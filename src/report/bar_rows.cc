#include "report/bar_rows.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "report/drawing.h"

namespace starling {

namespace {

constexpr double kRow = 22, kNames = 300, kNotes = 90, kHead = 84, kFoot = 56;
constexpr double kBegin = kNames + 10, kLast = kWidth - kNotes;

double longest_row(const Plot& plot) {
  std::map<double, double> rows;
  for (const Plot::Series& series : plot.series) {
    for (const Plot::Point& point : series.points) rows[point.x] += point.y;
  }
  return rows.empty() ? 0 : std::ranges::max(rows | std::views::values);
}

std::string row_ticks(const Plot& plot, const Scale& along, double floor) {
  std::string out;
  for (double tick : along.ticks()) {
    out +=
        fmt::format(R"(<path d="M{0:.1f} {1}V{2}" stroke="#dddddd"/>)", along(tick), kHead, floor);
    out += text(along(tick), floor + 18, "middle", number(plot.y, tick));
  }
  return out + text((kBegin + kLast) / 2, floor + 42, "middle", plot.y.label);
}

}  // namespace

std::string bar_rows(const Plot& plot) {
  const std::size_t rows = plot.categories.size();
  const double floor = kHead + kRow * static_cast<double>(rows);
  const auto middle = [](double place) { return kHead + kRow * (place + 0.5); };
  const Scale along(plot.y, 0, longest_row(plot), kBegin, kLast);
  std::string out = head_of(plot.title, floor + kFoot) + row_ticks(plot, along, floor);
  for (std::size_t i = 0; i < rows; ++i) {
    out += text(kNames, middle(static_cast<double>(i)) + 4, "end",
                shortened(plot.categories[i], kNames - 24), R"(font-size="12")");
  }
  std::map<double, double> ends;  // of the bars so far, by place
  double key = kBegin;
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const Plot::Series& each = plot.series[i];
    for (const Plot::Point& point : each.points) {
      if (!std::isfinite(point.y)) continue;
      double& end = ends[point.x];
      const double from = along(end), to = along(end += point.y);
      out += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}" fill="{}"/>)",
                         from, middle(point.x) - 8, std::max(0.0, to - from), 16, colour_of(i));
    }
    out +=
        mark(1, key + 6, kHead - 22, colour_of(i)) + text(key + 18, kHead - 18, "start", each.name);
    key += 40 + kLetter * 1.2 * static_cast<double>(each.name.size());
  }
  for (const Plot::Note& note : plot.notes) {
    out +=
        text(along(note.at.y) + 6, middle(note.at.x) + 4, "start", note.text, R"(font-size="12")");
  }
  return out + "</svg>\n";
}

}  // namespace starling
