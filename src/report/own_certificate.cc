#include "report/own_certificate.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <array>

#include "base/error.h"

namespace starling {

namespace {

constexpr long kYearSeconds = 365L * 24 * 3600;

void check(bool done) {
  if (!done) throw Error("OpenSSL cannot make a certificate for the live page");
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> parsed;
  return ::inet_pton(AF_INET, host.c_str(), parsed.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), parsed.data()) == 1;
}

}  // namespace

OwnCertificate make_certificate(const std::string& host) {
  OwnCertificate own;
  own.key.reset(EVP_EC_gen("P-256"), EVP_PKEY_free);
  own.certificate.reset(X509_new(), X509_free);
  check(own.key && own.certificate);
  X509* const x509 = own.certificate.get();
  std::uint64_t serial = 0;  // browsers mind two of the same
  check(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1);
  check(ASN1_INTEGER_set_uint64(X509_get_serialNumber(x509), serial >> 1) == 1);
  check(X509_set_version(x509, X509_VERSION_3) == 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), -3600);  // clocks differ
  X509_gmtime_adj(X509_getm_notAfter(x509), kYearSeconds);
  check(X509_set_pubkey(x509, own.key.get()) == 1);
  X509_NAME* const name = X509_get_subject_name(x509);
  const auto* const words = reinterpret_cast<const unsigned char*>("a run of starling");
  check(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, words, -1, -1, 0) == 1);
  check(X509_set_issuer_name(x509, name) == 1);
  const std::string names = fmt::format("{}:{}", is_address(host) ? "IP" : "DNS", host);
  const std::unique_ptr<X509_EXTENSION, void (*)(X509_EXTENSION*)> extension(
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str()),
      X509_EXTENSION_free);
  check(extension && X509_add_ext(x509, extension.get(), -1) == 1);
  check(X509_sign(x509, own.key.get(), EVP_sha256()) > 0);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned length = 0;
  check(X509_digest(x509, EVP_sha256(), digest.data(), &length) == 1);
  for (unsigned i = 0; i < length; ++i) {
    own.fingerprint += fmt::format("{}{:02X}", i == 0 ? "" : ":", digest[i]);
  }
  return own;
}

}  // namespace starling
