#include "strategy/names.h"

#include <fmt/format.h>

#include "base/error.h"

namespace starling {

bool is_one_of(std::string_view name, std::string_view names) {
  return name.find(',') == std::string_view::npos &&
         fmt::format(" {},", names).find(fmt::format(" {},", name)) != std::string::npos;
}

void check_name(const char* kind, const std::string& name, std::string_view names) {
  if (!is_one_of(name, names)) {
    throw Error(fmt::format("there is no {} '{}'", kind, name), fmt::format("there are {}", names));
  }
}

}  // namespace starling
