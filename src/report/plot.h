// A plot of series of points, as SVG. Colours are Okabe and Ito's, which people with any kind of
// colour vision tell apart, and every series has a shape of its own as well.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace starling {

struct Plot {
  struct Point {
    double x;
    double y;
  };
  enum class Kind { marks, line, bars };  // bars of several series stand on one another
  struct Series {
    std::string name;
    std::vector<Point> points;
    Kind kind = Kind::marks;
    bool quiet = false;  // a thin line behind the others, without a place in the key
  };
  struct Note {
    Point at;
    std::string text;
  };
  struct Axis {
    std::string label;                               // with its unit
    bool logarithmic = false;                        // then all values must be above 0
    std::function<std::string(double)> format = {};  // of the numbers at the ticks
  };

  std::string title;
  Axis x, y;
  std::vector<Series> series;
  std::vector<Note> notes;
  // Names for the places 0, 1, 2 ... along the x axis, in place of numbers; notes then stand above
  // them. Bars whose names do not fit side by side lie, one below the other.
  std::vector<std::string> categories;

  std::string svg() const;
};

// The same as pixels, twice as many as the SVG has units, for where SVG is not shown.
void write_png(const std::string& svg, const std::filesystem::path& file);

}  // namespace starling
