#include "job/encryption.h"

#include <fmt/format.h>

namespace starling {

Certificates read_certificates(const std::string& files) {
  const std::size_t first = files.find(',');
  const std::size_t second = first == std::string::npos ? first : files.find(',', first + 1);
  if (second == std::string::npos) {
    throw Error(fmt::format("'{}' does not name three files of certificates", files),
                "write them like authority.pem,own.pem,own-key.pem");
  }
  return {files.substr(0, first), files.substr(first + 1, second - first - 1),
          files.substr(second + 1)};
}

std::optional<TlsKeys> Encryption::keys(const std::string& secret) const {
  if (links == Links::none) return {};
  if (!certificates.own.empty()) return TlsKeys(certificates);
  return TlsKeys(secret);
}

Task<> encrypt(Host& host, std::unique_ptr<Link>& link, const TlsKeys& keys, TlsLink::Side side) {
  auto encrypted = std::make_unique<TlsLink>(host.loop(), std::move(link), keys, side);
  TlsLink& shaking = *encrypted;
  link = std::move(encrypted);
  co_await shaking.shake_hands();
}

}  // namespace starling
