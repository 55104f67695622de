// Checking names in settings against the lists of those there are, e.g. "bsp, ssp, async".
#pragma once

#include <string>
#include <string_view>

namespace starling {

bool is_one_of(std::string_view name, std::string_view names);
// Throws Error if it is none: there is no `kind` of that name.
void check_name(const char* kind, const std::string& name, std::string_view names);

}  // namespace starling
