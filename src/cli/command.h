// The subcommands of `starling`, one file each.
#pragma once

#include <CLI/CLI.hpp>

namespace starling {

void add_train_command(CLI::App& app);
// `program`: what to start, and its arguments.
void add_launch_command(CLI::App& app, std::vector<std::string> program);
void add_join_command(CLI::App& app, std::vector<std::string> program);  // and leave
// `command`: what each task runs.
void add_spark_submit_command(CLI::App& app, std::vector<std::string> command);
void add_measure_command(CLI::App& app);
void add_systems_command(CLI::App& app);
void add_explain_command(CLI::App& app);
// A command below `starling explain`.
void add_explain_pipeline_command(CLI::App& explaining);
void add_graph_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_status_command(CLI::App& app);
void add_lab_command(CLI::App& app);
void add_agent_command(CLI::App& app);
void add_serve_command(CLI::App& app);
void add_torture_command(CLI::App& app);

}  // namespace starling
