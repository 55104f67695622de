#include "base/whole_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "tests/small_files.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::ptrdiff_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(WholeFile, IsThereWhenItIsComplete) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a";
  {
    WholeFile file(path);
    file.write("one ");
    file.write("two");
    EXPECT_FALSE(fs::exists(path));
    file.commit();
    EXPECT_EQ(text_of(path), "one two");
  }
  EXPECT_EQ(text_of(path), "one two");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(WholeFile, LeavesNothingIfItIsGivenUp) {
  const TemporaryFolder folder;
  { WholeFile(folder.path() / "a").write("half"); }
  EXPECT_EQ(files_in(folder.path()), 0);
}

TEST(WholeFile, KeepsWhatIsThereIfThereIsNoSpace) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a";
  write_whole_file(path, "what was there");
  try {
    const SmallFiles no_space(1000);
    write_whole_file(path, std::string(5000, 'x'));
    ADD_FAILURE() << "5000 bytes went into 1000";
  } catch (const Error& error) {
    const std::string words = error.what();
    EXPECT_TRUE(words.starts_with("cannot save " + path.string() + ": write failed: ")) << words;
    EXPECT_NE(words.find("has space left"), std::string::npos) << words;
  }
  EXPECT_EQ(text_of(path), "what was there");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(WholeFile, NamesTheFolderThatIsNotThere) {
  EXPECT_THROW(write_whole_file("/proc/no/such/file", "text"), Error);
}

}  // namespace
}  // namespace starling
