// RosterStore: what is kept of an elastic job outside of its members, in etcd, so that who joins finds
// them there, and a job all of whose machines have gone comes back.
//
//   PREFIX/job               KeptJob: its last roster, and where its checkpoints are
//   PREFIX/doors/HOST:PORT   for each member that is there, under its launcher's lease
//
// Each value begins with a digest by the job's secret, so that nobody else can write one. The secret
// itself is never sent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/etcd.h"

namespace starling {

struct KeptJob {
  // How often it was started, and which generation of that it is in; 0: it has not come together yet.
  std::uint64_t start = 0;
  std::uint64_t generation = 0;
  std::vector<std::string> doors;  // of that generation, by rank
  std::string run;                 // the folder that its checkpoints are in, or empty
  bool ended = false;              // well: there is nothing to go on with

  bool operator==(const KeptJob&) const = default;
};

std::string as_text(const KeptJob& job);
// Throws Error if it is none.
KeptJob kept_job_in(const std::string& text);

// Each call waits, as those of Etcd, and throws Error.
class RosterStore {
 public:
  RosterStore(const std::string& url, std::string secret);

  const std::string& url() const { return url_; }

  struct Found {
    KeptJob job;                // its start is 0 if there is none
    std::int64_t revision = 0;  // that write() takes
  };
  // Throws Error if it was written with another secret.
  Found read();
  // False if somebody has written since.
  bool write(const KeptJob& job, std::int64_t revision);

  // Of the members that are there.
  std::vector<std::string> doors();
  std::int64_t grant();
  bool keep_alive(std::int64_t lease);
  void revoke(std::int64_t lease);
  void put_door(const std::string& door, std::int64_t lease);
  void remove_door(const std::string& door);

 private:
  template <class Call>
  auto told(const Call& call) const;
  std::string digest_of(const std::string& key, const std::string& text) const;
  std::string with_digest(const std::string& key, const std::string& text) const;
  // Nothing if the secret was another.
  std::optional<std::string> checked(const Etcd::Value& value) const;
  std::string job_key() const { return prefix_ + "/job"; }
  std::string door_prefix() const { return prefix_ + "/doors/"; }

  std::string url_, prefix_, secret_;
  Etcd etcd_;
};

inline constexpr std::chrono::seconds kLeaseTime{10};

}  // namespace starling
