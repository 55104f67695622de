// What `starling --version` says: which Starling this is, and what it was built of.
#pragma once

#include <string>

namespace starling {

std::string version_text();
std::string version_json();

}  // namespace starling
