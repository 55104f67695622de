// TlsRecords: one direction of TLS 1.3 once hands are shaken (RFC 8446, sections 5 and 7).
//
// OpenSSL shakes hands, and its traffic secrets come here. Its own records would be copied twice on
// either side and written one by one; here they are sealed from the caller's memory into the place
// that they are written from, and opened from where they were read into the caller's.
//
//   record = header: type, version, length | sealed: bytes, type of the bytes | tag
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "net/gcm.h"

namespace starling {

class TlsRecords {
 public:
  enum class Type : std::uint8_t { alert = 21, handshake = 22, data = 23 };
  using Secret = std::array<unsigned char, 32>;
  static constexpr std::size_t kMostBytes = 16 * 1024;
  static constexpr std::size_t kHeaderBytes = 5;
  static constexpr std::size_t kAddedBytes = kHeaderBytes + 1 + Gcm::kTagBytes;

  TlsRecords(const Secret& secret, Gcm::Use use);

  // Writes a record that holds these parts, at most kMostBytes together, and kAddedBytes around them.
  void seal(Type type, std::span<const ConstBytes> parts, std::byte* out);

  // How many bytes the record holds that has this header; nothing if it is none of a record.
  static std::optional<std::size_t> held_bytes(std::span<const std::byte, kHeaderBytes> header);
  // Of what type its bytes are, which are then in these places, as long as they are together; nothing
  // if it was not sealed with our key: then the bytes are nobody's.
  std::optional<Type> open(ConstBytes record, std::span<const Bytes> places);

  // A key is used up after so many records: AES-GCM may have 2^24.5.
  bool key_is_used_up() const { return count_ >= kRecordsOfAKey; }
  void update_key();

 private:
  static constexpr std::uint64_t kRecordsOfAKey = 1 << 23;
  Gcm::Nonce next_nonce();

  Secret secret_;
  Gcm::Use use_;
  Gcm gcm_;
  Gcm::Nonce start_;
  std::uint64_t count_ = 0;
};

}  // namespace starling
