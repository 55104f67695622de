// What an action says if it fails.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"

namespace starling {

inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace starling
