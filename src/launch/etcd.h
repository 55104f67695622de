// Etcd: the few calls of etcd's HTTP JSON gateway (v3, etcd 3.4 and later) that it takes to keep a roster
// (launch/roster_store.h): values under keys, a put that only succeeds if nobody was faster, and leases,
// with which keys go when their owner is silent.
//
// Each call waits, for at most `patience` an endpoint, whatever answers there; it is not for a thread that
// has other work. Throws Error, in one line, if no endpoint gives an answer that can be used.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace starling {

// etcd://HOST:PORT[,HOST:PORT...][/PREFIX]
struct EtcdUrl {
  struct Endpoint {
    std::string host;
    int port = 0;
    bool operator==(const Endpoint&) const = default;
  };
  std::vector<Endpoint> endpoints;   // of one cluster
  std::string prefix = "/starling";  // of all keys, without a slash at its end
};
// Throws Error.
EtcdUrl parse_etcd_url(const std::string& text);

class Etcd {
 public:
  explicit Etcd(std::vector<EtcdUrl::Endpoint> endpoints,
                std::chrono::milliseconds patience = std::chrono::seconds(5));

  struct Value {
    std::string key, text;
    std::int64_t revision = 0;  // grows with every change of the key
  };
  std::optional<Value> get(const std::string& key);
  // Those whose keys begin so.
  std::vector<Value> all_under(const std::string& prefix);
  // The key goes when the lease ends.
  void put(const std::string& key, const std::string& text, std::int64_t lease);
  // False, and nothing is put, if the key has another revision; 0 is that of one that is not there.
  bool put_if_at(std::int64_t revision, const std::string& key, const std::string& text);
  void remove(const std::string& key);

  std::int64_t grant(std::chrono::seconds time_to_live);
  // False if it has ended.
  bool keep_alive(std::int64_t lease);
  // All its keys go.
  void revoke(std::int64_t lease);

 private:
  nlohmann::json ask(const std::string& path, const nlohmann::json& question);

  std::vector<EtcdUrl::Endpoint> endpoints_;
  std::chrono::milliseconds patience_;
  std::size_t last_ = 0;  // the endpoint that has answered last
};

}  // namespace starling
