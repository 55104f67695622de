#include "job/user_key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "base/error.h"

namespace starling {

namespace {

constexpr const char* kRemedy =
    "or set STARLING_SECRET to the same words for all workers, e.g. `export "
    "STARLING_SECRET=$(openssl rand -hex 16)` in the batch script";

template <class ByteArray>
std::string hexadecimal(const ByteArray& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// Written beside its place and linked to it: whoever comes second finds a whole one.
void make_key(const std::filesystem::path& file) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  std::string draft = file.string() + ".XXXXXX";
  const int fd = ::mkstemp(draft.data());  // which nobody else can read
  if (fd < 0) {
    throw Error(fmt::format("cannot make the key {}: {}", file.string(), ::strerror(errno)),
                kRemedy);
  }
  std::array<unsigned char, 32> bytes{};
  const bool drawn = ::getrandom(bytes.data(), bytes.size(), 0) == std::ssize(bytes);
  const std::string text = hexadecimal(bytes) + "\n";
  const bool written =
      drawn && ::write(fd, text.data(), text.size()) == std::ssize(text) && ::fsync(fd) == 0;
  ::close(fd);
  if (written) ::link(draft.c_str(), file.c_str());  // if it is there already: the better
  ::unlink(draft.c_str());
}

}  // namespace

std::filesystem::path user_key_file() {
  const char* configuration = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (configuration != nullptr && *configuration != '\0') {
    return std::filesystem::path(configuration) / "starling" / "key";
  }
  if (home == nullptr || *home == '\0') {
    throw Error("there is no home for a key that the job's secret is made of",
                std::string("set HOME, ") + kRemedy);
  }
  return std::filesystem::path(home) / ".config" / "starling" / "key";
}

std::string user_key() {
  const std::filesystem::path file = user_key_file();
  if (!std::filesystem::exists(file)) make_key(file);
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    throw Error(fmt::format("cannot read the key {}: {}", file.string(), ::strerror(errno)),
                kRemedy);
  }
  if (status.st_uid != ::geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Error(fmt::format("the key {} is not yours alone", file.string()),
                "remove it, and the next job makes a new one");
  }
  std::string key;
  std::ifstream stream(file);
  std::getline(stream, key);
  if (key.size() < 32) {
    throw Error(fmt::format("the key {} is too short", file.string()),
                "remove it, and the next job makes a new one");
  }
  return key;
}

std::string secret_from_key(const std::string& job) {
  const std::string key = user_key();
  std::array<unsigned char, 32> code{};
  unsigned int size = 0;
  const auto* text = reinterpret_cast<const unsigned char*>(job.data());
  if (::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), text, job.size(), code.data(),
             &size) == nullptr) {
    throw Error("cannot make a secret of the key");
  }
  return hexadecimal(code);
}

}  // namespace starling
