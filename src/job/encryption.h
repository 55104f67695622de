// Which links of a job are encrypted, and with whose keys.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/names.h"
#include "net/tls_link.h"
#include "runtime/host.h"

namespace starling {

struct Encryption {
  // Within one machine a link is as safe as the memory of the processes at its ends.
  enum class Links : std::uint8_t { none, between_machines, all };
  friend constexpr Names<3> names_of(Links) { return {"use of TLS", {"off", "auto", "on"}}; }

  Links links = Links::none;
  Certificates certificates = {};  // if there are none, the key is made of the job's secret

  // Both ends come to the same answer, as either both are on loopback or neither is.
  bool covers(const Address& other_end) const {
    return links == Links::all || (links == Links::between_machines && !is_loopback(other_end));
  }
  // None if there is nothing to encrypt.
  std::optional<TlsKeys> keys(const std::string& secret) const;
};

// Puts TLS over a link that is to have it.
Task<> encrypt(Host& host, std::unique_ptr<Link>& link, const TlsKeys& keys, TlsLink::Side side);

// "AUTHORITY,CERTIFICATE,KEY"; throws Error for anything else.
Certificates read_certificates(const std::string& files);

}  // namespace starling
