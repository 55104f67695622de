#include "exchange/allreduce.h"

#include <fmt/format.h>

#include "base/error.h"
#include "exchange/choice.h"

namespace starling {

Allreduce* find_allreduce(std::string_view name) {
  if (name == "auto") return auto_allreduce;
  std::string known = "auto";
  for (const NamedAllreduce& allreduce : kAllreduces) {
    if (allreduce.name == name) return allreduce.run;
    known += fmt::format(", {}", allreduce.name);
  }
  throw Error(fmt::format("there is no exchange '{}'", name), "there are " + known);
}

Task<> allreduce(Allreduce* algorithm, Group group, Channel channel, Vector values,
                 Reduction reduction) {
  co_await algorithm(group, channel, values, reduction);
  conclude(values, reduction, group.size());
}

}  // namespace starling
