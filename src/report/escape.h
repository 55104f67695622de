// Text that may be anybody's, made safe to stand in HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace starling {

std::string escaped_for_markup(std::string_view text);

}  // namespace starling
