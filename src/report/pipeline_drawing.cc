#include "report/pipeline_drawing.h"

#include "report/drawing.h"

namespace starling {

namespace {

constexpr double kStageRow = 38, kStageNames = 240, kAbove = 92, kBelow = 60;

double end_of(std::span<const std::vector<TimedTurn>> timetable) {
  double end = 0;
  for (const auto& turns : timetable) end = std::max(end, turns.back().end);
  return end;
}

bool is_forward(const TimedTurn& turn) { return turn.turn.kind == Turn::Kind::forward; }

char letter_of(const TimedTurn& turn) {
  return static_cast<char>((is_forward(turn) ? 'a' : 'A') + turn.turn.micro_batch % 26);
}

}  // namespace

std::string pipeline_text(std::span<const std::vector<TimedTurn>> timetable,
                          std::span<const std::string> stages, bool colours) {
  constexpr double kCells = 96;
  const double cell = end_of(timetable) / kCells;
  std::size_t widest = 0;
  for (const std::string& stage : stages) widest = std::max(widest, stage.size());
  std::string out;
  for (std::size_t stage = 0; stage < timetable.size(); ++stage) {
    out += fmt::format("{:<{}}  ", stages[stage], widest);
    long at = 0;
    for (const TimedTurn& turn : timetable[stage]) {
      // However short, a turn has a cell of its own.
      const long begin = std::max(at, std::lround(turn.begin / cell));
      const long end = std::max(begin + 1, std::lround(turn.end / cell));
      out += std::string(static_cast<std::size_t>(begin - at), '.');
      const std::string letters(static_cast<std::size_t>(end - begin), letter_of(turn));
      out +=
          colours ? fmt::format("\x1b[{}m{}\x1b[0m", is_forward(turn) ? 34 : 33, letters) : letters;
      at = end;
    }
    const long idle = std::max(0L, static_cast<long>(kCells) - at);
    out += std::string(static_cast<std::size_t>(idle), '.') + "\n";
  }
  return out;
}

std::string pipeline_svg(const std::string& title,
                         std::span<const std::vector<TimedTurn>> timetable,
                         std::span<const std::string> stages) {
  const double floor = kAbove + kStageRow * static_cast<double>(timetable.size());
  const double begin = kStageNames + 10, end = kWidth - 24;
  Plot::Axis axis;
  const bool short_ones = end_of(timetable) < 1;
  axis.format = [=](double value) { return fmt::format("{:g}", short_ones ? value * 1e3 : value); };
  const Scale along(axis, 0, end_of(timetable), begin, end);
  std::string out = head_of(title, floor + kBelow);
  for (double tick : along.ticks()) {
    if (tick < 0) continue;
    out += fmt::format(R"(<path d="M{0:.1f} {1}V{2}" stroke="#dddddd"/>)", along(tick), kAbove,
                       floor + 6);
    out += text(along(tick), floor + 22, "middle", number(axis, tick));
  }
  out += text((begin + end) / 2, floor + 46, "middle",
              short_ones ? "time of a step in ms" : "time of a step in s");
  double key = begin;
  for (const std::size_t way : {0, 1}) {
    const std::string name = way == 0 ? "forward" : "backward";
    out +=
        mark(1, key + 6, kAbove - 30, colour_of(way)) + text(key + 18, kAbove - 26, "start", name);
    key += 40 + kLetter * 1.2 * static_cast<double>(name.size());
  }
  for (std::size_t stage = 0; stage < timetable.size(); ++stage) {
    const double top = kAbove + kStageRow * static_cast<double>(stage) + 4;
    const double height = kStageRow - 8;
    out += text(kStageNames, top + height / 2 + 4, "end",
                shortened(stages[stage], kStageNames - 24), R"(font-size="12")");
    out += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}" fill="#f2f2f2"/>)",
                       along(0), top, along(end_of(timetable)) - along(0), height);
    for (const TimedTurn& turn : timetable[stage]) {
      // A gap between turns, unless there would be nothing left of one.
      const double from = along(turn.begin);
      const double to = std::max(from + 1.5, along(turn.end) - 0.7);
      out += fmt::format(R"(<rect x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{}" fill="{}"/>)",
                         from, top, to - from, height, colour_of(is_forward(turn) ? 0 : 1));
      const std::string micro = std::to_string(turn.turn.micro_batch);
      if (to - from < kLetter * static_cast<double>(micro.size())) continue;
      out += text((from + to) / 2, top + height / 2 + 4, "middle", micro,
                  R"(font-size="11" fill="#ffffff")");
    }
  }
  return out + "</svg>\n";
}

}  // namespace starling
