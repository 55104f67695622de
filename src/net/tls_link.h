// TlsLink: TLS 1.3 over another link, so that strangers on the way read nothing and change nothing.
//
// Both ends prove that they have the job's secret: the key made of it is a pre-shared one (RFC 8446,
// 4.2.11) beside an ephemeral Diffie-Hellman exchange, so that who learns the secret later cannot read
// what was recorded before. There are no certificates to make. Those who have an authority of their
// own show each other certificates of it instead.
//
// Nothing is held back: bytes count as written when what they became has been taken by the link
// underneath, but for the last one, whose taking tells that.
#pragma once

#include <memory>
#include <string>

#include "runtime/link.h"

struct ssl_ctx_st;

namespace starling {

// Files in PEM. Each machine has its own certificate; all are by the same authority.
struct Certificates {
  std::string authority, own, key;
};

// What all links of a job have in common.
class TlsKeys {
 public:
  explicit TlsKeys(const std::string& secret);
  // Throws Error for a file that is not what it should be.
  explicit TlsKeys(const Certificates& certificates);

  ssl_ctx_st& context() const { return *context_; }

 private:
  std::shared_ptr<ssl_ctx_st> context_;
};

class TlsLink : public Link {
 public:
  enum class Side : std::uint8_t { caller, listener };

  using Link::read_some;
  using Link::write_some;

  TlsLink(Loop& loop, std::unique_ptr<Link> under, const TlsKeys& keys, Side side);
  ~TlsLink() override;

  // Before anything else. Throws HungUp if the other end goes meanwhile, and Error if it has not the
  // same keys or does not encrypt.
  Task<> shake_hands();

  Transfer write_some(const Parts& parts, bool more_follows) override;
  Transfer read_some(const Places& places) override;
  void when_readable(Callback callback) override;
  void when_writable(Callback callback) override;
  void close() override;
  Signs signs_of_life() override;
  int descriptor() override;
  std::int64_t overhead_bytes(Direction direction) const override;

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace starling
