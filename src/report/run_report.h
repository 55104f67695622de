// Runs beside each other, for people: figures, a table, and a page that holds all of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/plot.h"
#include "report/run_data.h"
#include "report/table.h"

namespace starling {

struct Figure {
  std::string name;     // of its files
  std::string caption;  // what is to be seen
  Plot plot;
};

struct RunReport {
  std::vector<Figure> figures;
  Table comparison;
  std::string html;  // whole: it needs nothing else, not even a network
};

// Savings are against runs[baseline].
RunReport report_on(std::span<const RunData> runs, std::size_t baseline);

}  // namespace starling
