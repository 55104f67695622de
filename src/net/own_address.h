// This machine's addresses, and the one of them on a network that somebody names: by an interface
// ("eth1") or by a subnet ("10.0.0.0/24").
#pragma once

#include <asio/ip/address.hpp>
#include <optional>
#include <string>
#include <vector>

namespace starling {

struct OwnAddress {
  std::string interface;
  asio::ip::address address;
};

// Without those that only lead to this machine's neighbours on a cable (link-local IPv6).
std::vector<OwnAddress> own_addresses();
// In words: "eth0 10.0.0.1, lo 127.0.0.1".
std::string in_words(const std::vector<OwnAddress>& addresses);

// The first of them that is on that network.
std::optional<asio::ip::address> address_on(const std::string& network,
                                            const std::vector<OwnAddress>& addresses);
// This machine's. Throws Error, which names it and what it has, if it is not on that network.
asio::ip::address own_address_on(const std::string& network);
// The first by which others can call this machine; nothing if it has none.
std::optional<asio::ip::address> own_outward_address();
// Whether an address belongs to a subnet; false if what is named is an interface.
bool is_in_subnet(const asio::ip::address& address, const std::string& network);
// The address from which this machine calls that one; nothing if it has no way there.
std::string own_address_towards(const asio::ip::address& to);

}  // namespace starling
