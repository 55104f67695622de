// A key of the user's own, from which jobs that an engine starts get their secrets: so that nobody has
// to hand one out. Homes are shared by the machines of a cluster, as a rule.
#pragma once

#include <filesystem>
#include <string>

namespace starling {

// ~/.config/starling/key, which only its user can read; made where there is none. All who ask at the
// same time get the same. Throws Error.
std::string user_key();
std::filesystem::path user_key_file();

// A secret for the job of that name, which nobody can tell without the key.
std::string secret_from_key(const std::string& job);

}  // namespace starling
