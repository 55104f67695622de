#pragma once

#include <gtest/gtest.h>

#include "plan/simulated_training.h"

namespace starling {

// That no rank of a simulated training ended in an error.
inline void expect_all_well(const SimulatedResult& result) {
  for (std::size_t rank = 0; rank < result.errors.size(); ++rank) {
    if (!result.errors[rank]) continue;
    try {
      std::rethrow_exception(result.errors[rank]);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << rank << ": " << error.what();
    }
  }
}

}  // namespace starling
