// The turns of a pipeline's stages along time: on a terminal, and as SVG.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "topology/pipeline_schedule.h"

namespace starling {

// One row a stage, as wide as its turns take: micro-batch 0 is an a on its way forward and an A on
// its way back; a dot is a stage that waits.
std::string pipeline_text(std::span<const std::vector<TimedTurn>> timetable,
                          std::span<const std::string> stages, bool colours);

std::string pipeline_svg(const std::string& title,
                         std::span<const std::vector<TimedTurn>> timetable,
                         std::span<const std::string> stages);

}  // namespace starling
