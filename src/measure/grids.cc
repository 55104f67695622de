#include "measure/grids.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/whole_file.h"
#include "report/run_report.h"

namespace starling {

namespace {

std::string paragraph(const std::string& text) { return text.empty() ? "" : text + "\n\n"; }

void save(const std::filesystem::path& folder, const std::string& name, const std::string& markdown,
          const Table& table, const nlohmann::json& rows) {
  write_whole_file(folder / (name + ".md"), markdown);
  write_whole_file(folder / (name + ".csv"), table.csv());
  write_whole_file(folder / (name + ".json"), rows.dump(2) + "\n");
}

void draw(const std::filesystem::path& folder, const std::string& name, const Plot& plot) {
  const std::string svg = plot.svg();
  write_whole_file(folder / (name + ".svg"), svg);
  write_png(svg, folder / (name + ".png"));
}

std::string markdown_of(const MeasuredGrid::Part& part) {
  return paragraph(part.headline) + part.table.markdown();
}

void save(const MeasuredGrid& measured, const std::filesystem::path& folder) {
  std::error_code shown_by_write;
  std::filesystem::create_directories(folder, shown_by_write);
  save(folder, "table", measured.markdown(), measured.table, measured.rows);
  if (measured.plot) draw(folder, "plot", *measured.plot);
  for (const MeasuredGrid::Part& part : measured.parts) {
    save(folder, part.name, markdown_of(part), part.table, part.rows);
    if (part.plot) draw(folder, part.name, *part.plot);
  }
}

// Runs are called by their folders within the grid's, seeds only where there are several.
void report_on_all(const GridProgress& progress, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> all;  // a grid may look at one twice
  std::map<std::filesystem::path, int> runs_in;
  for (const std::filesystem::path& run : progress.done()) {
    if (std::ranges::find(all, run) != all.end()) continue;
    all.push_back(run);
    ++runs_in[run.parent_path()];
  }
  std::vector<RunData> runs;
  for (const std::filesystem::path& run : all) {
    runs.push_back(read_run(run));
    const bool is_seed = run.filename().string().starts_with("seed-");
    const auto& named = is_seed && runs_in[run.parent_path()] == 1 ? run.parent_path() : run;
    runs.back().name = runs.back().label = named.lexically_relative(folder).string();
  }
  write_report(report_on(std::move(runs), 0), folder / "report");
}

}  // namespace

std::string MeasuredGrid::text() const {
  std::string all = paragraph(headline) + table.text() + "\n" + paragraph(remarks);
  for (const Part& part : parts) all += paragraph(part.headline) + part.table.text() + "\n";
  return all;
}

std::string MeasuredGrid::markdown() const {
  return paragraph(headline) + table.markdown() + (remarks.empty() ? "" : "\n" + remarks + "\n");
}

std::filesystem::path default_folder(const Grid& grid, const MeasureOptions& options) {
  const TrainSettings usual, asked = options.settings_over({}).train;
  std::string name = fmt::format("measure-{}", grid.name);
  if (asked.model != usual.model) {
    name += "-" + std::filesystem::path(asked.model).filename().string();
  }
  if (asked.data != usual.data) name += fmt::format("-{}", asked.data);
  if (!options.lab.empty()) name += "-" + options.lab;
  return std::filesystem::path("runs") / name;
}

MeasuredGrid measure_and_save(const Grid& grid, const MeasureOptions& options) {
  MeasuredGrid measured = grid.measure(options);
  save(measured, options.folder);
  if (!options.progress->done().empty()) report_on_all(*options.progress, options.folder);
  return measured;
}

}  // namespace starling
