#include "sim/faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ostream>

namespace starling {

namespace {
std::string ms(Time time) {
  return fmt::format("{} ms", std::chrono::duration<double, std::milli>(time).count());
}
}  // namespace

std::ostream& operator<<(std::ostream& out, const Faults& faults) {
  out << fmt::format("seed {}", faults.seed);
  for (const auto& [rank, time] : faults.crashes) {
    out << fmt::format(", rank {} crashes at {}", rank, ms(time));
  }
  for (const auto& [rank, time] : faults.failures) {
    out << fmt::format(", rank {} fails at {}", rank, ms(time));
  }
  for (const Faults::Partition& partition : faults.partitions) {
    out << fmt::format(", rank {} is cut off from {} to {}", fmt::join(partition.ranks, " and "),
                       ms(partition.from), ms(partition.until));
  }
  if (!faults.partitions.empty()) out << fmt::format(", detected in {}", ms(faults.detection));
  return out;
}

}  // namespace starling
