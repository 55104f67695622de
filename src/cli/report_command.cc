// starling report: one page about one run or several, with figures and tables beside it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "cli/command.h"
#include "report/run_report.h"

namespace starling {

namespace {

struct ReportCommand {
  std::vector<std::string> runs;
  std::string baseline;
  std::string folder = "report";
  bool print_json = false;
};

// A run folder itself, or the run folders in one, which is what `starling measure` leaves.
std::vector<std::filesystem::path> runs_in(const std::filesystem::path& folder) {
  const auto is_run = [](const std::filesystem::path& path) {
    return std::filesystem::exists(path / "settings.toml");
  };
  std::vector<std::filesystem::path> runs;
  std::error_code not_a_folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder, not_a_folder)) {
    if (!is_run(folder) && is_run(entry.path())) runs.push_back(entry.path());
  }
  std::ranges::sort(runs);
  return runs.empty() ? std::vector{folder} : runs;
}

void report_runs(const ReportCommand& command) {
  std::vector<RunData> runs;
  for (const std::string& folder : command.runs) {
    for (const std::filesystem::path& run : runs_in(folder)) runs.push_back(read_run(run));
  }
  std::size_t baseline = 0;
  if (!command.baseline.empty()) {
    const RunData wanted = read_run(command.baseline);
    while (baseline < runs.size() && runs[baseline].name != wanted.name) ++baseline;
    if (baseline == runs.size()) runs.push_back(wanted);
  }
  const RunReport report = report_on(runs, baseline);
  const std::filesystem::path folder = command.folder;
  write_report(report, folder);
  const std::string page = (folder / "index.html").string();
  if (command.print_json) {
    fmt::print(
        "{}\n",
        nlohmann::json{{"page", page}, {"runs", runs.size()}, {"figures", report.figures.size()}}
            .dump());
  } else {
    fmt::print("{}\n{}: {} figures, also as SVG and PNG beside it\n", report.comparison.text(),
               page, report.figures.size());
  }
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto command = std::make_shared<ReportCommand>();
  CLI::App* report =
      app.add_subcommand("report", "Put runs beside each other on one page, with figures");
  report->footer(
      "Example:\n"
      "  starling report runs/*\n"
      "  starling report runs/pairwise runs/horovod --baseline runs/horovod --out comparison");
  report->add_option("runs", command->runs, "run folders, or folders of them")->required();
  report->add_option("--baseline", command->baseline,
                     "the run that savings are against; by default the first");
  report->add_option("--out", command->folder, "where the page and the figures go")
      ->capture_default_str();
  report->add_flag("--json", command->print_json, "print JSON");
  report->callback([command] { report_runs(*command); });
}

}  // namespace starling
