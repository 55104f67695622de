// One line on the terminal that moves, or, where there is no terminal, a line now and then.
#pragma once

#include <string>

namespace starling {

class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();

  // share is from 0 to 1; details stand behind the bar.
  void show(double share, const std::string& details);
  // A line that stays, above the bar.
  void say(const std::string& line);

 private:
  void clear();

  std::string label_;
  bool terminal_;
  bool drawn_ = false;
};

}  // namespace starling
