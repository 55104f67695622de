#include "exchange/allreduce.h"

#include <fmt/format.h>

#include "base/error.h"

namespace starling {

Allreduce* find_allreduce(std::string_view name) {
  std::string known;
  for (const NamedAllreduce& allreduce : kAllreduces) {
    if (allreduce.name == name) return allreduce.run;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", allreduce.name);
  }
  throw Error(fmt::format("there is no exchange '{}'", name), "there are " + known);
}

}  // namespace starling
