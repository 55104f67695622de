// A setting whose training broke down is a result, too: a row that says so, with the reason below the
// table.
#pragma once

#include <string>
#include <vector>

#include "measure/training_run.h"

namespace starling {

class Broken {
 public:
  // Of a table with so many columns.
  explicit Broken(std::size_t columns) : columns_(columns) {}

  std::vector<std::string> row(const std::string& name, const TrainingBroke& why) {
    reasons_ += std::string("\n") + why.what();
    std::vector<std::string> cells(columns_, "-");
    cells[0] = name;
    cells[1] = "broke down";
    return cells;
  }
  // Behind what else there is to say; nothing if none broke down.
  std::string remark() const { return reasons_.empty() ? "" : "\nThese broke down:" + reasons_; }

 private:
  std::size_t columns_;
  std::string reasons_;
};

}  // namespace starling
