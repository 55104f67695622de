#include "base/version.h"

namespace starling {

const char* version() { return STARLING_VERSION; }

}  // namespace starling
