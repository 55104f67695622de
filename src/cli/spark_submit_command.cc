// starling spark-submit: programs in C++, the built-in trainer among them, as a job of Spark's.
#include <memory>

#include "cli/command.h"
#include "launch/spark_submit.h"

namespace starling {

void add_spark_submit_command(CLI::App& app, std::vector<std::string> command) {
  auto workers = std::make_shared<int>(4);
  CLI::App* submit = app.add_subcommand("spark-submit", "Train on Spark's executors");
  submit->footer(
      "Before -- stand options of Spark's own spark-submit, behind it the words of `starling "
      "train` or\n"
      "`starling launch`; each task of Spark's runs them for one worker. Starling must be "
      "installed on\n"
      "all machines; --files brings a program along.\n\n"
      "Example:\n"
      "  starling spark-submit -n 3 --master spark://host:7077 -- train --system pairwise\n"
      "  starling spark-submit -n 3 --master spark://host:7077 -- train --system horovod "
      "--elastic\n"
      "  starling spark-submit -n 4 --master yarn --files my_loop -- launch --system easgd -- "
      "my_loop");
  submit->add_option("-n,--workers", *workers, "how many workers, each a task of Spark's")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  submit->allow_extras();
  submit->callback([submit, workers, command] {
    if (command.empty()) throw CLI::RequiredError("What each worker runs, behind --,");
    become_spark_submit(*workers, submit->remaining(), command);
  });
}

}  // namespace starling
