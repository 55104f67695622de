// A certificate that a server makes for itself when it starts, for those who come by its fingerprint.
#pragma once

#include <memory>
#include <string>

struct x509_st;
struct evp_pkey_st;

namespace starling {

struct OwnCertificate {
  std::shared_ptr<x509_st> certificate;
  std::shared_ptr<evp_pkey_st> key;
  std::string fingerprint;  // SHA-256, "AB:CD:..."
};

// For that name or address, and for a year. The key is nowhere but in memory.
OwnCertificate make_certificate(const std::string& host);

}  // namespace starling
