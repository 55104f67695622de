#include "exchange/allreduce.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "base/names.h"
#include "exchange/choice.h"

namespace starling {

std::string allreduces_listed(std::string_view before_last) {
  std::vector<std::string_view> names;
  for (const NamedAllreduce& allreduce : kAllreduces) names.push_back(allreduce.name);
  return listed(names, before_last);
}

Allreduce* find_allreduce(std::string_view name) {
  if (name == "auto") return auto_allreduce;
  for (const NamedAllreduce& allreduce : kAllreduces) {
    if (allreduce.name == name) return allreduce.run;
  }
  throw Error(fmt::format("there is no exchange '{}'", name),
              "there are auto, " + allreduces_listed());
}

Task<> allreduce(Allreduce* algorithm, Group group, Channel channel, Vector values,
                 Reduction reduction) {
  co_await algorithm(group, channel, values, reduction);
  conclude(values, reduction, group.size());
}

}  // namespace starling
