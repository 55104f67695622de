// Flags for where workers run: one machine, one of several, several by ssh, or where an engine that has
// started this very process says.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "launch/launcher.h"
#include "strategy/settings.h"

namespace starling {

class LaunchFlags {
 public:
  void add_to(CLI::App& command);
  // Throws Error on what cannot be.
  LaunchPlan plan() const;

  // Over MPI: as many workers as mpirun has started processes, but for servers. Throws Error if others
  // were asked for, or if it is `elastic`.
  static void take_ranks(const LaunchPlan& plan, int asked_workers, Settings& settings);

  // How many workers there are in all where an engine or --hosts says so, or else `usual`. `asked` is
  // what was asked for, or 0; throws Error if it does not fit.
  static int workers_for(LaunchPlan& plan, int asked, int usual);

 private:
  void take_mpi(LaunchPlan& plan) const;
  void take_place(LaunchPlan& plan) const;

  int machines_ = 1;
  int machine_ = 0;
  std::string rendezvous_;
  std::string secret_file_;
  int restarts_ = 0;
  std::string spot_notice_;
  int timeout_seconds_ = 60;
  std::string stall_ = "20s";
  std::string tls_ = "auto";
  std::string certificates_;
  std::string hosts_;
  std::string rsh_;
  std::string network_;
  std::vector<std::string> exports_;
  std::string lab_;
  std::string memory_;
  std::string transport_ = "tcp";
};

}  // namespace starling
