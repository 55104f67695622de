// JobFolder: what a running job keeps on its machine, for `starling status`: a file that describes it,
// and a board for each of its processes (job/board.h). It is this user's alone, and goes with the
// launcher; what one that was killed has left is swept up by the next who looks.
//
//   $XDG_RUNTIME_DIR/starling, or /tmp/starling-UID
//     1234-1/          the launcher's process, and which of its jobs
//       job.json       is locked as long as it runs
//       rank-0 ...
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace starling {

struct JobDoor {
  std::string door;  // host:port
  std::string secret, tls;
};

class JobFolder {
 public:
  // Throws Error if somebody else has made the place where the folders are.
  explicit JobFolder(const nlohmann::json& description);
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // The board of a process of that rank, which is made.
  std::filesystem::path add_board(int rank);
  // Where the workers of an elastic job can be asked to let others in, for this user's `starling join`.
  void set_doors(const std::vector<JobDoor>& doors);

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

// Where the folders of this user's jobs are; throws Error if it is not this user's alone.
std::filesystem::path jobs_folder();

// As set_doors() wrote them; none if it has not.
std::vector<JobDoor> read_doors(const std::filesystem::path& folder);

struct RunningJob {
  std::filesystem::path folder;
  int launcher;             // its process
  std::string description;  // JSON
};
// Those of this user on this machine, the first started first.
std::vector<RunningJob> running_jobs();

}  // namespace starling
