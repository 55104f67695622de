#include "train/idx.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "base/check.h"
#include "base/error.h"

namespace starling {

namespace {

constexpr std::size_t kMostDimensions = 4;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;  // MNIST's largest file has 47 MB
constexpr std::uint32_t kUnsignedByte = 0x08;                    // idx's code for the element type

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

bool read_exactly(std::ifstream& stream, std::uint8_t* to, std::size_t count) {
  const auto wanted = static_cast<std::streamsize>(count);
  return stream.read(reinterpret_cast<char*>(to), wanted) && stream.gcount() == wanted;
}

std::uint64_t size_of_open_file(std::ifstream& stream) {
  stream.seekg(0, std::ios::end);
  const auto size_bytes = static_cast<std::streamoff>(stream.tellg());
  stream.seekg(0);
  return size_bytes < 0 ? 0 : static_cast<std::uint64_t>(size_bytes);
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& file, std::size_t dimensions) {
  STARLING_CHECK(dimensions >= 1 && dimensions <= kMostDimensions, "{} dimensions", dimensions);
  const auto refuse = [&](const std::string& why) -> Error {
    return Error(fmt::format("{} {}", file.string(), why));
  };

  // Opening a pipe would wait for a writer, and a folder opens but cannot be read.
  std::error_code status_error;
  const auto status = std::filesystem::status(file, status_error);
  if (status.type() == std::filesystem::file_type::not_found) throw refuse("is missing");
  if (status_error) throw refuse("cannot be reached: " + status_error.message());
  if (!std::filesystem::is_regular_file(status)) throw refuse("is not a regular file");
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw refuse("cannot be opened: " + std::generic_category().message(errno));
  }

  const std::uint64_t file_bytes = size_of_open_file(stream);
  if (file_bytes > kMaxFileBytes) {
    throw refuse(fmt::format("has {} bytes, more than the limit of {}", file_bytes, kMaxFileBytes));
  }
  std::array<std::uint8_t, 4 + 4 * kMostDimensions> header{};
  const std::size_t header_bytes = 4 + 4 * dimensions;
  if (file_bytes < header_bytes || !read_exactly(stream, header.data(), header_bytes)) {
    throw refuse(fmt::format("is truncated: {} bytes, less than an idx header", file_bytes));
  }
  const auto magic = static_cast<std::uint32_t>(kUnsignedByte << 8 | dimensions);
  if (const std::uint32_t found = big_endian(header.data()); found != magic) {
    throw refuse(fmt::format(
        "is not an idx file of bytes in {} dimension{}: it starts with {:08x}, not {:08x}",
        dimensions, dimensions == 1 ? "" : "s", found, magic));
  }

  IdxArray array;
  const std::uint64_t payload_bytes = file_bytes - header_bytes;
  std::uint64_t expected_bytes = 1;  // stays below 2^30 * 2^32, so it cannot overflow
  for (std::size_t d = 0; d < dimensions; ++d) {
    const std::uint32_t extent = big_endian(header.data() + 4 + 4 * d);
    expected_bytes *= extent;
    if (expected_bytes == 0) throw refuse(fmt::format("is empty: dimension {} is 0", d));
    if (expected_bytes > payload_bytes) break;
    array.shape.push_back(extent);
  }
  if (expected_bytes > payload_bytes) {
    throw refuse(
        fmt::format("is truncated: its header announces at least {} bytes of data and it has {}",
                    expected_bytes, payload_bytes));
  }
  if (expected_bytes < payload_bytes) {
    throw refuse(fmt::format("is too long: its header announces {} bytes of data and it has {}",
                             expected_bytes, payload_bytes));
  }

  array.values.resize(static_cast<std::size_t>(payload_bytes));
  if (!read_exactly(stream, array.values.data(), array.values.size())) {
    throw refuse("could not be read to its end");
  }
  return array;
}

}  // namespace starling
