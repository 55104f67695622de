#include "base/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <system_error>

#include "base/error.h"

namespace starling {

namespace {

// Makes a new name survive a power cut, where the file system can. The file is safe by then.
void sync_folder_of(const std::filesystem::path& target) {
  const auto folder = target.has_parent_path() ? target.parent_path() : ".";
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

WholeFile::WholeFile(std::filesystem::path target) : target_(std::move(target)) {
  // The process id keeps two writers apart; the attempts step over what a killed one left behind.
  for (int attempt = 0; attempt < 100 && descriptor_ < 0; ++attempt) {
    pending_ = target_;
    pending_ += fmt::format(".{}-{}.tmp", ::getpid(), attempt);
    descriptor_ = ::open(pending_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) fail("create", errno);
}

WholeFile::~WholeFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_) ::unlink(pending_.c_str());
}

void WholeFile::write(ConstBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void WholeFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void WholeFile::commit() {
  if (::fsync(descriptor_) != 0) fail("sync", errno);
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail("close", errno);
  if (::rename(pending_.c_str(), target_.c_str()) != 0) fail("rename", errno);
  committed_ = true;
  sync_folder_of(target_);
}

void WholeFile::fail(const char* action, int error_number) const {
  throw Error(fmt::format("cannot save {}: {} failed: {}", target_.string(), action,
                          std::generic_category().message(error_number)),
              "check that its folder exists, is writable and has space left");
}

void write_whole_file(const std::filesystem::path& target, std::string_view text) {
  WholeFile file(target);
  file.write(text);
  file.commit();
}

}  // namespace starling
