#include "report/tensorboard.h"

#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "report/crc32c.h"

namespace starling {

namespace {

// TensorBoard looks for tfevents in a name, and takes any end of it.
constexpr const char* kOwnSuffix = ".starling";

template <class Word>
void put_little_endian(std::string& out, Word word) {
  for (std::size_t i = 0; i < sizeof word; ++i) out += static_cast<char>(word >> 8 * i & 0xFF);
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

enum class Wire { kVarint = 0, kEightBytes = 1, kText = 2, kFourBytes = 5 };

void put_key(std::string& out, unsigned field, Wire wire) {
  put_varint(out, field << 3 | static_cast<unsigned>(wire));
}

void put_text(std::string& out, unsigned field, std::string_view text) {
  put_key(out, field, Wire::kText);
  put_varint(out, text.size());
  out += text;
}

// Event: wall_time = 1, step = 2, and one of file_version = 3 and summary = 5.
std::string event(double wall_time, std::int64_t step, unsigned field, std::string_view content) {
  std::string out;
  put_key(out, 1, Wire::kEightBytes);
  put_little_endian(out, std::bit_cast<std::uint64_t>(wall_time));
  put_key(out, 2, Wire::kVarint);
  put_varint(out, static_cast<std::uint64_t>(step));
  put_text(out, field, content);
  return out;
}

// As TFRecord does, so that a checksum of data that holds checksums is still worth something.
std::uint32_t masked_crc(std::string_view data) {
  return std::rotr(crc32c(data), 15) + 0xA282EAD8u;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

TensorBoardLog::TensorBoardLog(const std::filesystem::path& folder) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  // TensorBoard reads a folder's files in the order of their names. One that is there already is
  // another log's, which began in this very second.
  auto seconds = static_cast<std::int64_t>(now.count());
  std::filesystem::path path;
  do {
    path =
        folder / fmt::format("events.out.tfevents.{:010}.{}{}", seconds++, host_name(), kOwnSuffix);
  } while (std::filesystem::exists(path));
  file_.open(path, std::ios::binary);
  if (file_) write(event(now.count(), 0, 3, "brain.Event:2"));
  if (!file_) {
    throw Error(fmt::format("cannot write {}: {}", path.string(), ::strerror(errno)),
                "give a folder that exists, may be written to, and has space left");
  }
}

void TensorBoardLog::remove_from(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> own;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("events.out.tfevents.") && name.ends_with(kOwnSuffix)) {
      own.push_back(entry.path());
    }
  }
  for (const std::filesystem::path& each : own) std::filesystem::remove(each);
}

void TensorBoardLog::scalar(std::string_view tag, double value, std::int64_t step,
                            double wall_time) {
  std::string point;  // Summary.Value: tag = 1, simple_value = 2
  put_text(point, 1, tag);
  put_key(point, 2, Wire::kFourBytes);
  put_little_endian(point, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  std::string summary;  // Summary: value = 1
  put_text(summary, 1, point);
  write(event(wall_time, step, 5, summary));
}

// A record is its length and its data, each with a checksum behind it.
void TensorBoardLog::write(std::string_view record) {
  std::string framed;
  put_little_endian(framed, static_cast<std::uint64_t>(record.size()));
  put_little_endian(framed, masked_crc(framed));
  framed += record;
  put_little_endian(framed, masked_crc(record));
  file_ << framed << std::flush;
}

}  // namespace starling
