// Runs beside each other, for people: figures, a table, and a page that holds all of it.
#pragma once

#include <filesystem>
#include <optional>
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
  bool has_run_lines = false;           // a line a run, in the order of runs
  std::optional<std::size_t> run = {};  // the only one that it is about
};

struct RunReport {
  std::vector<Figure> figures;
  Table comparison;
  std::vector<std::string> remarks;  // what to mind when comparing them
  std::string html;                  // whole: it needs nothing else, not even a network
};

// Savings are against runs[baseline]. Lines are drawn of all runs, in colours of the eight that matter
// most; on the page people choose others.
RunReport report_on(std::vector<RunData> runs, std::size_t baseline);

// The page as index.html, each figure as SVG and PNG, the table as Markdown and CSV. Throws Error
// if the folder cannot be written to.
void write_report(const RunReport& report, const std::filesystem::path& folder);

}  // namespace starling
