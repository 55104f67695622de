// A process that was started as a parameter server.
#pragma once

#include "job/job.h"

namespace starling {

// Joins the job, serves until all workers are done, and reports to the launcher what was sent and
// received.
void run_server(Job job);

}  // namespace starling
