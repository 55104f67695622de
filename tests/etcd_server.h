// A real etcd for a test, which can be killed and started again on what it has written.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "launch/etcd.h"
#include "tests/free_address.h"
#include "tests/process.h"

namespace starling {

class EtcdServer {
 public:
  // Tests that need one say so, and are passed over, where there is none.
  static bool is_installed() {
    for (const std::string& folder : split(std::getenv("PATH"), ':')) {
      if (::access((folder + "/etcd").c_str(), X_OK) == 0) return true;
    }
    return false;
  }
  static constexpr const char* kMissing = "etcd is not installed: scripts/setup test does that";

  EtcdServer() { start(); }

  std::string address() const { return client_; }
  std::string url(const std::string& name) const { return "etcd://" + client_ + "/" + name; }

  void start() {
    const std::string client = "http://" + client_, peer = "http://" + peer_;
    process_.emplace(std::vector<std::string>{
        "etcd", "--data-dir", (folder_.path() / "data").string(), "--listen-client-urls", client,
        "--advertise-client-urls", client, "--listen-peer-urls", peer,
        "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer});
    Etcd etcd(parse_etcd_url(url("")).endpoints);
    const bool answers = wait_until(60s, [&] {
      try {
        etcd.remove("nothing");
        return true;
      } catch (const Error&) {
        return false;
      }
    });
    EXPECT_TRUE(answers) << process_->err();
  }
  void kill() {
    process_->signal(SIGKILL);
    EXPECT_EQ(process_->wait(10s), "signal 9");
    process_.reset();
  }
  void forget() { std::filesystem::remove_all(folder_.path() / "data"); }

 private:
  TemporaryFolder folder_;
  std::string client_ = free_address(), peer_ = free_address();
  std::optional<Process> process_;
};

}  // namespace starling
