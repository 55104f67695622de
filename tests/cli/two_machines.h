// What two launchers on this machine need to take each other for two machines.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/temporary_folder.h"
#include "tests/process.h"

namespace starling {

// A port that was free a moment ago.
inline std::string free_address() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(fd);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

class TwoMachines : public testing::Test {
 protected:
  TwoMachines() {
    std::ofstream(folder_.path() / "secret") << "correct horse battery staple\n";
    std::ofstream(folder_.path() / "guess") << "incorrect horse battery staple\n";
    using enum std::filesystem::perms;
    for (const char* file : {"secret", "guess"}) {
      std::filesystem::permissions(folder_.path() / file, owner_read | owner_write);
    }
  }
  std::vector<std::string> machine_flags(int number, const std::string& secret = "secret",
                                         const std::string& timeout = "60") {
    return {"--machines",   "2",      "--machine",     std::to_string(number),
            "--rendezvous", address_, "--secret-file", (folder_.path() / secret).string(),
            "--timeout",    timeout};
  }

  TemporaryFolder folder_;
  std::string address_ = free_address();
};

}  // namespace starling
