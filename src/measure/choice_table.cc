#include "measure/choice_table.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "exchange/allreduce.h"

namespace starling {

namespace {

struct Fastest {
  std::string algorithm;
  double seconds;
};
using BySize = std::map<std::uint64_t, Fastest>;

bool is_an_algorithm(const std::string& name) {
  return std::ranges::find(kAllreduces, name, &NamedAllreduce::name) != kAllreduces.end();
}

}  // namespace

std::string choice_table(const nlohmann::json& rows) {
  std::map<int, BySize> fastest;  // by the number of processes
  for (const nlohmann::json& row : rows) {
    const std::string algorithm = row["algorithm"];
    if (row["peer"] != "starling" || !is_an_algorithm(algorithm)) continue;
    const double seconds = row["median_seconds"];
    const auto [place, is_new] =
        fastest[row["workers"]].try_emplace(row["bytes"], algorithm, seconds);
    if (!is_new && seconds < place->second.seconds) place->second = {algorithm, seconds};
  }
  std::string table;
  for (const auto& [workers, sizes] : fastest) {
    for (auto size = sizes.begin(); size != sizes.end(); ++size) {
      const auto next = std::next(size);
      if (next != sizes.end() && next->second.algorithm == size->second.algorithm) continue;
      const double bytes = static_cast<double>(size->first);
      const double border =
          next == sizes.end() ? bytes : std::sqrt(bytes * static_cast<double>(next->first));
      table += fmt::format("{{{}, {}, \"{}\"}},\n", workers, std::llround(border),
                           size->second.algorithm);
    }
  }
  return table;
}

}  // namespace starling
