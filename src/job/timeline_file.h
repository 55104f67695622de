// The timeline of a run as a file that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing)
// show: a row of its own for each worker's computing, waiting and encoding, for each message on its
// way out, and for each on its way in. Workers write a part each, the launcher puts them together.
#pragma once

#include <filesystem>

#include "job/job.h"
#include "runtime/comm.h"

namespace starling {

// Records from here on if the job asks for it, and writes this rank's part when it goes: also when
// the work ends by an error, which is when people look. Each generation of a job has parts of its own.
class TimelineFile {
 public:
  TimelineFile(const Job& job, Comm& comm, std::uint64_t generation = 1);
  ~TimelineFile();
  TimelineFile(const TimelineFile&) = delete;
  TimelineFile& operator=(const TimelineFile&) = delete;

 private:
  std::filesystem::path folder_;  // empty: nothing is asked for
  Comm& comm_;
  std::uint64_t generation_;
};

// Makes timeline.json of the parts in the folder. Returns how many spans there was no space for.
std::uint64_t join_timeline(const std::filesystem::path& folder);

}  // namespace starling
