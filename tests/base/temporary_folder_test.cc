#include "base/temporary_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace starling {
namespace {

TEST(TemporaryFolder, GoesWithAllThatIsInIt) {
  std::filesystem::path path;
  {
    const TemporaryFolder folder;
    path = folder.path();
    EXPECT_TRUE(std::filesystem::is_directory(path));
    std::filesystem::create_directories(path / "deep/below");
    std::ofstream(path / "deep/file.txt") << "something";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryFolder, IsNobodyElses) {
  const TemporaryFolder one, other;
  EXPECT_NE(one.path(), other.path());
  EXPECT_TRUE(std::filesystem::is_empty(one.path()));
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* was = std::getenv(name)) was_ = was;
    ::setenv(name, value, 1);
  }
  ~Variable() { was_.empty() ? ::unsetenv(name_) : ::setenv(name_, was_.c_str(), 1); }

 private:
  const char* name_;
  std::string was_;
};

TEST(TemporaryFolder, IsAnErrorWhereItCannotBeMade) {
  // Also for root, whom no permission stops.
  const Variable nowhere("TMPDIR", "/proc");
  try {
    const TemporaryFolder folder;
    FAIL() << folder.path();
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("cannot make a folder like /proc/starling-"))
        << error.what();
  }
}

}  // namespace
}  // namespace starling
