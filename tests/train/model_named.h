// A model of that name with its default sizes, for tests.
#pragma once

#include "train/model.h"

namespace starling {

inline Model model_named(const std::string& name, int classes = 10) {
  TrainSettings settings;
  settings.model = name;
  return make_model(settings, classes);
}

}  // namespace starling
