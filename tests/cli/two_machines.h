// What two launchers on this machine need to take each other for two machines.
#pragma once

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "tests/free_address.h"
#include "tests/process.h"

namespace starling {

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
