// A plot of bars with long names or many: they lie, one below the other, and the picture is as high
// as they need.
#pragma once

#include <string>

#include "report/plot.h"

namespace starling {

// The plot has categories, and all of its series are bars.
std::string bar_rows(const Plot& plot);

}  // namespace starling
