// starling._core: what Python needs of Starling's core, one file a topic.
#include "base/version.h"
#include "bindings.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "Sessions, groups and exchanges of Starling.";
  module.attr("VERSION") = starling::version();
  module.attr("BUILT_WITH") = STARLING_BUILT_WITH;
  starling::add_session(module);
  starling::add_groups(module);
  starling::add_named_exchanges(module);
  starling::add_worker(module);
  starling::add_pipeline(module);
  starling::add_plan(module);
}
