// A log that TensorBoard shows as curves: a file of records in the folder of a run, which is read
// along while it grows.
//
// The records are protobuf messages, written here by hand: the protobuf library would need
// TensorFlow's .proto files, all for five fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace starling {

class TensorBoardLog {
 public:
  // Throws Error if no file can be written there.
  explicit TensorBoardLog(const std::filesystem::path& folder);

  // One point of the curve `tag` (UTF-8). What cannot be written is lost: a full disk should not
  // end a training.
  void scalar(std::string_view tag, double value, std::int64_t step, double wall_time);
  // Whether nothing was lost so far.
  bool is_complete() const { return file_.good(); }

  // Removes the logs that this class has written to a folder, and no others.
  static void remove_from(const std::filesystem::path& folder);

 private:
  void write(std::string_view record);

  std::ofstream file_;
};

}  // namespace starling
