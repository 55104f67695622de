// The progress bar of a run, or of the grid that it is part of.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "measure/grid_progress.h"
#include "report/progress_bar.h"

namespace starling {

class RunBar {
 public:
  // `grid` may be nullptr.
  RunBar(std::string label, const GridProgress* grid);

  // What the workers report; what is not about progress changes nothing.
  void take(const nlohmann::json& event);
  void say(const std::string& line) { bar_.say(line); }

 private:
  std::string label_;
  const GridProgress* grid_;
  ProgressBar bar_;
  double accuracy_ = -1;  // none was measured yet
};

}  // namespace starling
