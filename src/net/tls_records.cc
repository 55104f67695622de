#include "net/tls_records.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/check.h"

namespace starling {

namespace {

constexpr std::byte kSealed{23}, kVersion{3};  // as TLS 1.2 had them: middleboxes know nothing else

// HKDF-Expand-Label, of which one block is enough here.
template <std::size_t kLength>
std::array<unsigned char, kLength> expand(const TlsRecords::Secret& secret, std::string_view name) {
  static_assert(kLength <= std::tuple_size_v<TlsRecords::Secret>);
  const std::string label = "tls13 " + std::string(name);
  std::string info = {0, static_cast<char>(kLength), static_cast<char>(label.size())};
  info += label;
  info += '\0';    // there is no context
  info += '\x01';  // the first block
  TlsRecords::Secret block;
  unsigned length = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(info.data()), info.size(), block.data(), &length);
  std::array<unsigned char, kLength> result;
  std::copy_n(block.begin(), kLength, result.begin());
  OPENSSL_cleanse(block.data(), block.size());
  return result;
}

}  // namespace

TlsRecords::TlsRecords(const Secret& secret, Gcm::Use use)
    : secret_(secret),
      use_(use),
      gcm_(expand<16>(secret, "key"), use),
      start_(expand<12>(secret, "iv")) {}

void TlsRecords::update_key() {
  secret_ = expand<32>(secret_, "traffic upd");
  gcm_ = Gcm(expand<16>(secret_, "key"), use_);
  start_ = expand<12>(secret_, "iv");
  count_ = 0;
}

Gcm::Nonce TlsRecords::next_nonce() {
  Gcm::Nonce nonce = start_;
  for (std::size_t i = 0; i < sizeof count_; ++i) {
    nonce[nonce.size() - 1 - i] ^= static_cast<unsigned char>(count_ >> (8 * i));
  }
  ++count_;
  return nonce;
}

void TlsRecords::seal(Type type, std::span<const ConstBytes> parts, std::byte* out) {
  std::size_t bytes = 0;
  for (const ConstBytes part : parts) bytes += part.size();
  STARLING_CHECK(bytes <= kMostBytes, "a record of {} bytes", bytes);
  const std::size_t sealed = bytes + kAddedBytes - kHeaderBytes;
  const std::array<std::byte, kHeaderBytes> header = {kSealed, kVersion, kVersion,
                                                      static_cast<std::byte>(sealed >> 8),
                                                      static_cast<std::byte>(sealed & 0xff)};
  gcm_.begin(next_nonce(), header);
  out = std::ranges::copy(header, out).out;
  for (const ConstBytes part : parts) {
    if (part.empty()) continue;
    gcm_.take(part, out);
    out += part.size();
  }
  gcm_.take(std::array{static_cast<std::byte>(type)}, out++);
  gcm_.write_tag(out);
}

std::optional<std::size_t> TlsRecords::held_bytes(std::span<const std::byte, kHeaderBytes> header) {
  const std::size_t sealed =
      std::to_integer<std::size_t>(header[3]) << 8 | std::to_integer<std::size_t>(header[4]);
  const std::size_t added = kAddedBytes - kHeaderBytes;
  if (header[0] != kSealed || sealed < added || sealed > added + kMostBytes) return std::nullopt;
  return sealed - added;
}

std::optional<TlsRecords::Type> TlsRecords::open(ConstBytes record, std::span<const Bytes> places) {
  gcm_.begin(next_nonce(), record.first(kHeaderBytes));
  ConstBytes rest = record.subspan(kHeaderBytes);
  for (const Bytes place : places) {
    if (place.empty()) continue;
    gcm_.take(rest.first(place.size()), place.data());
    rest = rest.subspan(place.size());
  }
  std::byte type;
  STARLING_CHECK(rest.size() == 1 + Gcm::kTagBytes, "places that do not fit a record");
  gcm_.take(rest.first(1), &type);
  if (!gcm_.has_tag(rest.data() + 1)) return std::nullopt;
  return static_cast<Type>(type);
}

}  // namespace starling
