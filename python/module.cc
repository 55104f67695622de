// starling._core: what Python needs of Starling's core, one file a topic.
#include "bindings.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "Sessions, groups and exchanges of Starling.";
  starling::add_session(module);
  starling::add_groups(module);
  starling::add_worker(module);
  starling::add_pipeline(module);
  starling::add_plan(module);
}
