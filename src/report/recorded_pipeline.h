// One step of a pipeline as it was: from the timeline of a run.
#pragma once

#include <filesystem>

#include "strategy/settings.h"
#include "topology/pipeline_schedule.h"

namespace starling {

struct RecordedPipeline {
  Settings settings;                              // of the run
  int step = 0;                                   // the one in the middle
  std::vector<std::vector<TimedTurn>> timetable;  // of the first copy's stages
};

// Throws Error, in one line, if the run has no pipeline or was not recorded with --timeline.
RecordedPipeline read_pipeline(const std::filesystem::path& run_folder);

}  // namespace starling
