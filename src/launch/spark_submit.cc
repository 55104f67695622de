#include "launch/spark_submit.h"

#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "launch/programs.h"

namespace starling {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Of a build tree, where the package is not installed.
void find_package_of_build_tree() {
  const std::filesystem::path packages = own_program().parent_path().parent_path() / "python";
  if (!std::filesystem::exists(packages / "starling")) return;
  const std::string others = variable("PYTHONPATH");
  const std::string path = packages.string() + (others.empty() ? "" : ":" + others);
  ::setenv("PYTHONPATH", path.c_str(), 1);
}

}  // namespace

void become_spark_submit(int workers, const std::vector<std::string>& options,
                         const std::vector<std::string>& command) {
  find_package_of_build_tree();
  std::string python = variable("PYSPARK_DRIVER_PYTHON");
  if (python.empty()) python = variable("PYSPARK_PYTHON");
  if (python.empty()) python = "python3";
  std::vector<std::string> words = {python, "-m", "starling.spark.submit", std::to_string(workers)};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  throw Error(fmt::format("cannot run {}: {}", python, ::strerror(errno)),
              "set PYSPARK_PYTHON to a Python that has PySpark; `scripts/setup spark` makes one");
}

}  // namespace starling
