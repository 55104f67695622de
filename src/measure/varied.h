// What a grid goes through by itself cannot be asked for as well: its rows would all be the same, under
// names that say otherwise.
#pragma once

#include <initializer_list>
#include <string_view>

#include "measure/grids.h"

namespace starling {

// Throws Error, in one line that names it, if a flag says one of these settings.
void check_left_to_grid(const MeasureOptions& options, const char* grid,
                        std::initializer_list<std::string_view> varied);

}  // namespace starling
