// A folder of its own, which goes with all that is in it when this does.
#pragma once

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.h"

namespace starling {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "starling-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(fmt::format("cannot make a folder like {}", name),
                  "see that TMPDIR names one that can be written to");
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace starling
