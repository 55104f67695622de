#include "cli/version_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/version.h"
#include "commit.inc"
#include "measure/machine.h"

namespace starling {

namespace {

struct BuildFact {
  std::string name, value;
};

std::vector<BuildFact> build_facts() {
  std::vector<BuildFact> facts = {
#include "build_facts.inc"
  };
  // Not known of a source archive.
  if (*STARLING_COMMIT != '\0') facts.insert(facts.begin(), {"commit", STARLING_COMMIT});
  return facts;
}

}  // namespace

std::string version_text() {
  std::string text = fmt::format("starling {}\n", version());
  for (const BuildFact& fact : build_facts()) {
    text += fmt::format("{:<9} {}\n", fact.name, fact.value);
  }
  return text + kernels_description();
}

std::string version_json() {
  nlohmann::ordered_json facts = {{"version", version()}};
  for (const BuildFact& fact : build_facts()) facts[fact.name] = fact.value;
  facts["kernels"] = kernels_description();
  return facts.dump();
}

}  // namespace starling
