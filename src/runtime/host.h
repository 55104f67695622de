// Host: what a rank has of the machine that it runs on: links to others, and chance. TcpHost
// (net/tcp_host.h) is the real one; in the simulator each rank has one of its own (sim/switch.h).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/link.h"

namespace starling {

// Where somebody listens, as it stands in a roster.
struct Address {
  std::array<unsigned char, 16> ip{};  // IPv6, or IPv4 mapped into it
  std::uint32_t port = 0;

  bool operator==(const Address&) const = default;
};
std::string to_string(const Address& address);  // the machine's, without the port
// Whether only this machine can call there.
bool is_loopback(const Address& address);

class Listener {
 public:
  struct Caller {
    std::unique_ptr<Link> link;
    Address from;
  };

  virtual ~Listener() = default;  // whoever calls from now on is refused
  virtual std::uint32_t port() const = 0;
  virtual Task<Caller> accept() = 0;
};

class Host {
 public:
  // What came of a call. One that nobody answers, not even to refuse it, may take for ever.
  struct Answer {
    std::unique_ptr<Link> link;  // if somebody has answered
    bool refused = false;        // the machine is there, and nobody listens
    std::string why = {};        // there is no link
  };

  virtual ~Host() = default;
  virtual Loop& loop() = 0;

  // The address that is written as "10.0.0.1:29400"; throws Error if there is none.
  virtual Address find(const std::string& name) = 0;
  // Listens at that port, or at any that is free if it is 0, and only for those who reach us as they
  // reach that place. Throws Error.
  virtual std::unique_ptr<Listener> listen(const Address& place, std::uint32_t port) = 0;
  virtual Task<Answer> call(Address to) = 0;
  // Whom a call goes to, and by which of our addresses, for people.
  virtual std::string describe_way(const Address& to) = 0;

  // Fills these bytes so that nobody can guess them.
  virtual void draw(Bytes bytes) = 0;
};

}  // namespace starling
