// Records are TLS's own: OpenSSL, at the other end of a socket, reads and writes the same.
#include "net/tls_records.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <thread>

#include "base/check.h"
#include "net/tcp_host.h"
#include "net/tls_link.h"
#include "runtime/race.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

std::vector<std::byte> some_text(std::size_t bytes) {
  std::vector<std::byte> text(bytes);
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<std::byte>(i * 5 + i / 241);
  return text;
}

TlsRecords::Secret some_secret() {
  TlsRecords::Secret secret;
  std::ranges::fill(secret, static_cast<unsigned char>(42));
  return secret;
}

// What one call of OpenSSL makes of all, in the order of a record: code, tag.
std::vector<std::byte> by_openssl(const Gcm::Key& key, const Gcm::Nonce& nonce,
                                  ConstBytes authenticated, ConstBytes text) {
  std::vector<std::byte> code(text.size() + Gcm::kTagBytes);
  const auto in = [](ConstBytes bytes) {
    return reinterpret_cast<const unsigned char*>(bytes.data());
  };
  auto* const out = reinterpret_cast<unsigned char*>(code.data());
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  int length = 0;
  EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), nullptr, key.data(), nonce.data());
  EVP_EncryptUpdate(context, nullptr, &length, in(authenticated),
                    static_cast<int>(authenticated.size()));
  EVP_EncryptUpdate(context, out, &length, in(text), static_cast<int>(text.size()));
  EVP_EncryptFinal_ex(context, out + text.size(), &length);
  EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Gcm::kTagBytes, out + text.size());
  EVP_CIPHER_CTX_free(context);
  return code;
}

TEST(Gcm, GivesTheSameInPiecesAsOpenSslInOne) {
  const Gcm::Key key = {1, 2, 3};
  const Gcm::Nonce nonce = {9, 8, 7};
  const std::vector<std::byte> text = some_text(1000), beside = some_text(5);
  const std::vector<std::byte> expected = by_openssl(key, nonce, beside, text);
  for (const std::size_t piece : {1u, 16u, 17u, 999u, 1000u}) {
    Gcm seal(key, Gcm::Use::seal), open(key, Gcm::Use::open);
    std::vector<std::byte> code(text.size() + Gcm::kTagBytes), back(text.size());
    seal.begin(nonce, beside);
    open.begin(nonce, beside);
    for (std::size_t at = 0; at < text.size(); at += piece) {
      const std::size_t length = std::min(piece, text.size() - at);
      seal.take(ConstBytes(text).subspan(at, length), code.data() + at);
      open.take(ConstBytes(expected).subspan(at, length), back.data() + at);
    }
    seal.write_tag(code.data() + text.size());
    EXPECT_EQ(code, expected);
    EXPECT_TRUE(open.has_tag(expected.data() + text.size()));
    EXPECT_EQ(back, text);
  }
}

TEST(TlsRecords, OpenWhatWasSealedIntoSeveralPlacesAndNothingElse) {
  const std::vector<std::byte> text = some_text(100);
  std::vector<std::byte> record(text.size() + TlsRecords::kAddedBytes);
  TlsRecords(some_secret(), Gcm::Use::seal)
      .seal(TlsRecords::Type::data,
            std::array{ConstBytes(text).first(30), ConstBytes(text).subspan(30)}, record.data());
  EXPECT_EQ(TlsRecords::held_bytes(ConstBytes(record).first<TlsRecords::kHeaderBytes>()), 100u);
  std::vector<std::byte> back(text.size());
  const std::array places = {Bytes(back).first(77), Bytes(back).subspan(77)};
  EXPECT_EQ(TlsRecords(some_secret(), Gcm::Use::open).open(record, places), TlsRecords::Type::data);
  EXPECT_EQ(back, text);
  for (const std::size_t changed : {0u, 4u, 5u, 60u, 105u, 106u, 121u}) {
    std::vector<std::byte> forged = record;
    forged[changed] ^= std::byte{1};
    EXPECT_EQ(TlsRecords(some_secret(), Gcm::Use::open).open(forged, places), std::nullopt);
  }
  TlsRecords later(some_secret(), Gcm::Use::open);
  later.open(record, places);
  EXPECT_EQ(later.open(record, places), std::nullopt) << "the same record came twice";
}

TEST(TlsRecords, AreNotOfAnyLength) {
  const auto header = [](int type, int length) {
    return std::array{static_cast<std::byte>(type), std::byte{3}, std::byte{3},
                      static_cast<std::byte>(length >> 8), static_cast<std::byte>(length & 255)};
  };
  EXPECT_EQ(TlsRecords::held_bytes(header(23, 17)), 0u);
  EXPECT_EQ(TlsRecords::held_bytes(header(23, 16 * 1024 + 17)), 16u * 1024);
  EXPECT_EQ(TlsRecords::held_bytes(header(23, 16)), std::nullopt);
  EXPECT_EQ(TlsRecords::held_bytes(header(23, 16 * 1024 + 18)), std::nullopt);
  EXPECT_EQ(TlsRecords::held_bytes(header(22, 100)), std::nullopt);
}

// OpenSSL at one end of a socket pair, in a thread, which reads what comes and writes it back.
class OpenSslEcho {
 public:
  OpenSslEcho(int fd, const TlsKeys& keys, std::size_t bytes, bool updates_keys)
      : thread_([=, &keys] {
          std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(&keys.context()), SSL_free);
          std::array<char, 1024> nowhere = {};  // where the keys' owner has its secrets told to
          SSL_set_app_data(ssl.get(), nowhere.data());
          SSL_set_fd(ssl.get(), fd);
          STARLING_CHECK(SSL_accept(ssl.get()) == 1, "OpenSSL does not shake hands");
          std::vector<std::byte> text(bytes);
          std::size_t got = 0;
          while (got < bytes) {
            std::size_t some = 0;
            if (SSL_read_ex(ssl.get(), text.data() + got, bytes - got, &some) != 1) return;
            got += some;
          }
          if (updates_keys) SSL_key_update(ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
          std::size_t put = 0;
          SSL_write_ex(ssl.get(), text.data(), text.size(), &put);
          SSL_shutdown(ssl.get());
        }) {}
  ~OpenSslEcho() { thread_.join(); }

 private:
  std::thread thread_;
};

TEST(TlsRecords, AreUnderstoodByOpenSslBothWaysWithNewKeysToo) {
  for (const bool updates_keys : {false, true}) {
    TcpLoop loop;
    TcpHost host(loop);
    const TlsKeys keys("a secret of two");
    asio::ip::tcp::acceptor acceptor = listen_on_loopback(loop);
    Host::Answer answer = loop.run(
        host.call(host.find(fmt::format("127.0.0.1:{}", acceptor.local_endpoint().port()))));
    asio::ip::tcp::socket other = acceptor.accept();
    const std::vector<std::byte> out = some_text(300'000);
    std::vector<std::byte> in(out.size());
    const OpenSslEcho echo(other.native_handle(), keys, out.size(), updates_keys);
    TlsLink link(loop, std::move(answer.link), keys, TlsLink::Side::caller);
    loop.run(within(loop, loop.now() + 20s, "the test", link.shake_hands()));
    loop.run(within(loop, loop.now() + 20s, "the test", write_all(loop, link, out)));
    loop.run(within(loop, loop.now() + 20s, "the test", read_exactly(loop, link, in)));
    EXPECT_EQ(in, out);
    loop.run(within(loop, loop.now() + 20s, "the test", until_readable(loop, link)));
    EXPECT_EQ(link.read_some(Bytes(in)).status, Link::Status::closed);
  }
}

TEST(TlsRecords, GoOnWithTheNextKeyAtBothEnds) {
  TlsRecords seal(some_secret(), Gcm::Use::seal), open(some_secret(), Gcm::Use::open);
  const std::vector<std::byte> text = some_text(40);
  std::vector<std::byte> record(text.size() + TlsRecords::kAddedBytes), back(text.size());
  seal.update_key();
  seal.seal(TlsRecords::Type::data, std::array{ConstBytes(text)}, record.data());
  EXPECT_EQ(TlsRecords(some_secret(), Gcm::Use::open).open(record, std::array{Bytes(back)}),
            std::nullopt);
  open.update_key();
  EXPECT_EQ(open.open(record, std::array{Bytes(back)}), TlsRecords::Type::data);
  EXPECT_EQ(back, text);
}

}  // namespace
}  // namespace starling
