// AES-128-GCM with one key, in one direction: what TLS seals and opens records with.
//
// By Intel's library where the build has found it: with a processor's wide instructions (VAES) it is
// almost three times as fast as OpenSSL 3.0, which does not know them yet. Else by OpenSSL.
#pragma once

#include <array>
#include <memory>

#include "base/bytes.h"

namespace starling {

class Gcm {
 public:
  enum class Use : std::uint8_t { seal, open };
  using Key = std::array<unsigned char, 16>;
  using Nonce = std::array<unsigned char, 12>;
  static constexpr std::size_t kTagBytes = 16;

  Gcm(const Key& key, Use use);
  ~Gcm();
  Gcm(Gcm&&) noexcept;
  Gcm& operator=(Gcm&&) noexcept;

  // A message: this, then any number of pieces, then its tag. A nonce must never come twice.
  void begin(const Nonce& nonce, ConstBytes authenticated);
  void take(ConstBytes in, std::byte* out);
  void write_tag(std::byte* tag);      // to seal
  bool has_tag(const std::byte* tag);  // to open: false if anything was changed on the way

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace starling
