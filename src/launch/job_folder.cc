#include "launch/job_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "job/board.h"

namespace starling {

namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription = "job.json";
constexpr const char* kDoorsFile = "doors.json";

// "1234-1": the first job of process 1234.
int process_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  int process = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
  return error == std::errc() && *end == '-' ? process : 0;
}

std::string next_name() {
  static std::atomic<int> jobs = 0;
  return fmt::format("{}-{}", ::getpid(), ++jobs);
}

// Whoever runs a job holds the lock. One that is only about to has no file yet.
bool is_over(const fs::path& folder) {
  const int file = ::open((folder / kDescription).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  const bool free = ::flock(file, LOCK_EX | LOCK_NB) == 0;
  ::close(file);
  return free;
}

}  // namespace

// In /tmp anybody can make a folder, of any name: one that is not ours tells our jobs to another.
fs::path jobs_folder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  const bool has_runtime = runtime != nullptr && *runtime != '\0' && ::access(runtime, W_OK) == 0;
  const fs::path path = has_runtime ? fs::path(runtime) / "starling"
                                    : fs::path("/tmp") / fmt::format("starling-{}", ::geteuid());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    throw Error(fmt::format("cannot make {}: {}", path.string(), ::strerror(errno)));
  }
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
      status.st_uid != ::geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Error(fmt::format("{} is not this user's alone", path.string()),
                "remove it, or set XDG_RUNTIME_DIR to a folder of your own");
  }
  return path;
}

JobFolder::JobFolder(const nlohmann::json& description) : path_(jobs_folder() / next_name()) {
  fs::remove_all(path_);  // of a launcher that had our number
  if (::mkdir(path_.c_str(), 0700) != 0) {
    throw Error(fmt::format("cannot make {}: {}", path_.string(), ::strerror(errno)));
  }
  const std::string text = description.dump();
  const fs::path file = path_ / kDescription, unfinished = path_ / "job.json.new";
  lock_ = ::open(unfinished.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0 || ::flock(lock_, LOCK_EX) != 0 ||
      ::write(lock_, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::rename(unfinished.c_str(), file.c_str()) != 0) {
    throw Error(fmt::format("cannot write {}: {}", file.string(), ::strerror(errno)));
  }
}

JobFolder::~JobFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  ::close(lock_);
}

fs::path JobFolder::add_board(int rank) {
  const fs::path board = path_ / fmt::format("rank-{}", rank);
  fs::remove(board);  // that of one who came before
  make_board(board);
  return board;
}

void JobFolder::set_doors(const std::vector<JobDoor>& doors) {
  nlohmann::json list = nlohmann::json::array();
  for (const JobDoor& each : doors) {
    list.push_back({{"door", each.door}, {"secret", each.secret}, {"tls", each.tls}});
  }
  std::ofstream(path_ / kDoorsFile) << list;
}

std::vector<JobDoor> read_doors(const fs::path& folder) {
  std::ifstream file(folder / kDoorsFile);
  const auto list = nlohmann::json::parse(file, nullptr, false);
  std::vector<JobDoor> doors;
  if (!list.is_array()) return doors;
  for (const auto& each : list) {
    doors.push_back({each.value("door", ""), each.value("secret", ""), each.value("tls", "auto")});
  }
  return doors;
}

std::vector<RunningJob> running_jobs() {
  std::vector<RunningJob> jobs;
  for (const fs::directory_entry& entry : fs::directory_iterator(jobs_folder())) {
    const int process = process_of(entry.path());
    if (process == 0) continue;
    if (is_over(entry.path())) {
      std::error_code ignored;
      fs::remove_all(entry.path(), ignored);
      continue;
    }
    std::ifstream file(entry.path() / kDescription);
    std::stringstream text;
    text << file.rdbuf();
    if (!file || text.str().empty()) continue;
    jobs.push_back({entry.path(), process, text.str()});
  }
  std::ranges::sort(jobs, {}, &RunningJob::launcher);
  return jobs;
}

}  // namespace starling
