// starling report: one page about one run or several, with figures and tables beside it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
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

bool is_run(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "settings.toml");
}

std::vector<std::filesystem::path> runs_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> runs;
  std::error_code not_a_folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder, not_a_folder)) {
    if (is_run(entry.path())) runs.push_back(entry.path());
  }
  std::ranges::sort(runs);
  return runs;
}

// The run folders that were named. `runs/*` names grids and reports as well: beside runs they are
// passed over with a note, alone a grid stands for all runs in it.
std::vector<std::filesystem::path> chosen_runs(const std::vector<std::string>& named) {
  std::vector<std::filesystem::path> runs;
  std::ranges::copy_if(named, std::back_inserter(runs), is_run);
  const bool among_runs = !runs.empty();
  for (const std::string& folder : named) {
    if (is_run(folder)) continue;
    const std::vector<std::filesystem::path> inner = runs_in(folder);
    if (!among_runs) {
      std::ranges::copy(inner, std::back_inserter(runs));
    } else if (!inner.empty()) {
      fmt::print(stderr, "note: {0} holds {1} runs of its own; `starling report {0}` shows them\n",
                 folder, inner.size());
    }
    if (inner.empty() && named.size() > 1) {
      fmt::print(stderr, "note: {} is no run folder, and is left out\n", folder);
    }
  }
  if (runs.empty()) read_run(named.front());  // throws, and says why
  return runs;
}

void report_runs(const ReportCommand& command) {
  std::vector<RunData> runs;
  for (const std::filesystem::path& run : chosen_runs(command.runs)) runs.push_back(read_run(run));
  std::size_t baseline = 0;
  if (!command.baseline.empty()) {
    const RunData wanted = read_run(command.baseline);
    while (baseline < runs.size() && runs[baseline].name != wanted.name) ++baseline;
    if (baseline == runs.size()) runs.push_back(wanted);
  }
  const std::size_t count = runs.size();
  const RunReport report = report_on(std::move(runs), baseline);
  const std::filesystem::path folder = command.folder;
  write_report(report, folder);
  const std::string page = (folder / "index.html").string();
  if (command.print_json) {
    fmt::print("{}\n", nlohmann::json{{"page", page},
                                      {"runs", count},
                                      {"figures", report.figures.size()},
                                      {"remarks", report.remarks}}
                           .dump());
  } else {
    for (const std::string& remark : report.remarks) fmt::print(stderr, "note: {}\n", remark);
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
  report->add_option("runs", command->runs, "run folders, or a folder of them")->required();
  report->add_option("--baseline", command->baseline,
                     "the run that savings are against; by default the first");
  report->add_option("--out", command->folder, "where the page and the figures go")
      ->capture_default_str();
  report->add_flag("--json", command->print_json, "print JSON");
  report->callback([command] { report_runs(*command); });
}

}  // namespace starling
