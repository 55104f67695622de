// A file that is there as a whole or not at all: it is written beside its place and moved there when
// it is complete, so that nobody sees half of it, and a full disk leaves what was there before.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/bytes.h"

namespace starling {

class WholeFile {
 public:
  // Throws Error, as the others do, naming the file, what failed and why.
  explicit WholeFile(std::filesystem::path target);
  // What was not committed vanishes.
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(ConstBytes bytes);
  void write(std::string_view text);
  // It is on the disk, under its name, when this returns.
  void commit();

 private:
  [[noreturn]] void fail(const char* action, int error_number) const;

  std::filesystem::path target_;
  std::filesystem::path pending_;
  int descriptor_ = -1;
  bool committed_ = false;
};

void write_whole_file(const std::filesystem::path& target, std::string_view text);

}  // namespace starling
