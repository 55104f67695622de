// Which Starling this is.
#pragma once

namespace starling {

const char* version();

}  // namespace starling
