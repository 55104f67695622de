#include "net/own_address.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/ip/network_v4.hpp>
#include <asio/ip/network_v6.hpp>
#include <asio/ip/udp.hpp>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace starling {

namespace {

std::string own_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

std::vector<OwnAddress> own_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(list, ::freeifaddrs);
  std::vector<OwnAddress> found;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    if (each->ifa_addr->sa_family == AF_INET) {
      sockaddr_in v4{};
      std::memcpy(&v4, each->ifa_addr, sizeof v4);
      found.push_back({each->ifa_name, asio::ip::address_v4(ntohl(v4.sin_addr.s_addr))});
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 v6{};
      std::memcpy(&v6, each->ifa_addr, sizeof v6);
      asio::ip::address_v6::bytes_type bytes;
      std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
      const asio::ip::address_v6 address(bytes);
      if (!address.is_link_local()) found.push_back({each->ifa_name, address});
    }
  }
  return found;
}

std::string in_words(const std::vector<OwnAddress>& addresses) {
  std::vector<std::string> words;
  for (const auto& [interface, address] : addresses) {
    words.push_back(fmt::format("{} {}", interface, address.to_string()));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

bool is_in_subnet(const asio::ip::address& address, const std::string& network) {
  asio::error_code error;
  if (address.is_v4()) {
    const auto subnet = asio::ip::make_network_v4(network, error);
    if (error) return false;
    const auto alone = asio::ip::network_v4(address.to_v4(), 32);
    return alone.is_subnet_of(subnet.canonical()) || subnet.canonical() == alone;
  }
  const auto subnet = asio::ip::make_network_v6(network, error);
  if (error) return false;
  const auto alone = asio::ip::network_v6(address.to_v6(), 128);
  return alone.is_subnet_of(subnet.canonical()) || subnet.canonical() == alone;
}

std::optional<asio::ip::address> address_on(const std::string& network,
                                            const std::vector<OwnAddress>& addresses) {
  for (const auto& [interface, address] : addresses) {
    if (interface == network || is_in_subnet(address, network)) return address;
  }
  return std::nullopt;
}

asio::ip::address own_address_on(const std::string& network) {
  const std::vector<OwnAddress> addresses = own_addresses();
  if (const auto found = address_on(network, addresses)) return *found;
  throw Error(
      fmt::format("{} is not on the network {}, it has {}", own_name(), network,
                  in_words(addresses)),
      "give --interface the name or the subnet, like 10.0.0.0/24, of one that all machines are on");
}

std::optional<asio::ip::address> own_outward_address() {
  for (const auto& [interface, address] : own_addresses()) {
    if (!address.is_loopback()) return address;
  }
  return std::nullopt;
}

std::string own_address_towards(const asio::ip::address& to) {
  asio::io_context io;
  asio::ip::udp::socket socket(io);
  asio::error_code error;
  const asio::ip::udp::endpoint there(to, 9);  // which nothing is sent to
  socket.open(there.protocol(), error);
  if (!error) socket.connect(there, error);
  return error ? "" : socket.local_endpoint(error).address().to_string();
}

}  // namespace starling
