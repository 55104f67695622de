// Pushing and pulling between real processes: what one worker of `starling bench server` does.
#pragma once

#include <cstddef>

#include "job/job.h"
#include "strategy/settings.h"

namespace starling {

// What its workers and servers run by.
Settings server_bench_settings(int workers, int servers, int replicas);

// Joins the job, whose settings are those, pushes a gradient of that size and pulls the weights as
// often as it can, checks them, and reports a "bench" event.
void time_push_and_pull(Job job, std::size_t bytes, double seconds);

}  // namespace starling
