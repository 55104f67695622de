#include "net/tls_link.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <coroutine>
#include <exception>
#include <utility>
#include <vector>

namespace starling {

namespace {

constexpr std::size_t kRecordBytes = 16 * 1024;       // the most that TLS has
constexpr std::size_t kMostAtOnceBytes = 128 * 1024;  // encrypted before they are written
constexpr std::size_t kReadAheadBytes =
    256 * 1024;                                    // taken from the link before they are decrypted
constexpr std::uint64_t kRecordsOfAKey = 1 << 23;  // AES-GCM may have 2^24.5
constexpr int kTypeAndTagBytes = 1 + 16;           // behind what a record holds
constexpr char kKeyLabel[] = "starling tls 1.3 key";
constexpr unsigned char kIdentity[] = "starling";

[[noreturn]] void fail_in_openssl(const std::string& what, const std::string& remedy = "") {
  const unsigned long code = ERR_get_error();
  const char* const reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  ERR_clear_error();
  throw Error(fmt::format("{} ({})", what, reason != nullptr ? reason : "no reason given"), remedy);
}

template <class T, void (*kFree)(T*)>
struct Freed {
  void operator()(T* object) const { kFree(object); }
};
using TlsSession = std::unique_ptr<SSL_SESSION, Freed<SSL_SESSION, SSL_SESSION_free>>;

// The session that both ends resume, as it were, though it never was: this is how TLS 1.3 takes a
// key that both have already.
TlsSession session_of(SSL* ssl, const std::string& secret) {
  std::array<unsigned char, 32> key;
  unsigned length = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(kKeyLabel), sizeof kKeyLabel - 1, key.data(),
       &length);
  constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  TlsSession session(SSL_SESSION_new());
  SSL_SESSION_set1_master_key(session.get(), key.data(), key.size());
  SSL_SESSION_set_cipher(session.get(), SSL_CIPHER_find(ssl, kAes128GcmSha256));
  SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION);
  return session;
}

const std::string& secret_of(SSL* ssl) {
  return *static_cast<const std::string*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, std::size_t* length,
              SSL_SESSION** session) {
  *session = nullptr;
  if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) return 1;
  *identity = kIdentity;
  *length = sizeof kIdentity - 1;
  *session = session_of(ssl, secret_of(ssl)).release();
  return 1;
}

int find_key(SSL* ssl, const unsigned char* identity, std::size_t length, SSL_SESSION** session) {
  *session = nullptr;
  if (std::equal(identity, identity + length, kIdentity, kIdentity + sizeof kIdentity - 1)) {
    *session = session_of(ssl, secret_of(ssl)).release();
  }
  return 1;
}

std::shared_ptr<SSL_CTX> make_context() {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (!context) fail_in_openssl("OpenSSL has no TLS");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256");
  SSL_CTX_set_num_tickets(context.get(), 0);  // every link has a handshake of its own
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  return context;
}

}  // namespace

TlsKeys::TlsKeys(const std::string& secret) : context_(make_context()) {
  auto kept = std::make_shared<std::pair<std::string, std::shared_ptr<SSL_CTX>>>(secret, context_);
  SSL_CTX_set_app_data(context_.get(), &kept->first);
  SSL_CTX_set_psk_use_session_callback(context_.get(), offer_key);
  SSL_CTX_set_psk_find_session_callback(context_.get(), find_key);
  context_ = std::shared_ptr<SSL_CTX>(kept, kept->second.get());
}

TlsKeys::TlsKeys(const Certificates& certificates) : context_(make_context()) {
  SSL_CTX* const context = context_.get();
  const auto check = [](int done, const char* what, const std::string& file) {
    if (done == 1) return;
    fail_in_openssl(fmt::format("'{}' is no {}", file, what),
                    "--certificates takes files in PEM: the authority's, this machine's, its key");
  };
  check(SSL_CTX_load_verify_locations(context, certificates.authority.c_str(), nullptr),
        "certificate of an authority", certificates.authority);
  check(SSL_CTX_use_certificate_chain_file(context, certificates.own.c_str()), "certificate",
        certificates.own);
  check(SSL_CTX_use_PrivateKey_file(context, certificates.key.c_str(), SSL_FILETYPE_PEM),
        "key of the certificate", certificates.key);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

struct TlsLink::Core {
  Core(Loop& the_loop, std::unique_ptr<Link> the_link, const TlsKeys& keys, Side side)
      : loop(the_loop), under(std::move(the_link)), ssl(SSL_new(&keys.context()), SSL_free) {
    if (!ssl) fail_in_openssl("there is no memory for an encrypted link");
    BIO* const bio = BIO_new(bio_method());
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl.get(), bio, bio);
    SSL_set_msg_callback(ssl.get(), see_record);
    SSL_set_msg_callback_arg(ssl.get(), this);
    if (side == Side::caller) {
      SSL_set_connect_state(ssl.get());
    } else {
      SSL_set_accept_state(ssl.get());
    }
  }

  // What OpenSSL reads and writes with.
  static int bio_write(BIO* bio, const char* data, int length) {
    auto& core = *static_cast<Core*>(BIO_get_data(bio));
    const auto* const bytes = reinterpret_cast<const std::byte*>(data);
    core.encrypted.insert(core.encrypted.end(), bytes, bytes + length);
    return length;
  }
  static int bio_read(BIO* bio, char* data, int length) {
    auto& core = *static_cast<Core*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (core.arrived.empty()) {
      core.last_read = core.under->read_some(Bytes(core.ahead));
      core.arrived = ConstBytes(core.ahead).first(core.last_read.bytes);
    }
    if (!core.arrived.empty()) {
      const std::size_t some = std::min(core.arrived.size(), static_cast<std::size_t>(length));
      std::copy_n(core.arrived.begin(), some, reinterpret_cast<std::byte*>(data));
      core.arrived = core.arrived.subspan(some);
      return static_cast<int>(some);
    }
    if (core.last_read.status == Status::not_now) BIO_set_retry_read(bio);
    return core.last_read.status == Status::closed ? 0 : -1;
  }
  // Of records that come in all is overhead but what they hold for us.
  static void see_record(int writing, int, int type, const void* data, std::size_t, SSL* ssl,
                         void* core) {
    if (writing != 0) return;
    auto& [overhead, plain] = static_cast<Core*>(core)->in;
    const auto* const bytes = static_cast<const unsigned char*>(data);
    if (type == SSL3_RT_HEADER) {
      const int length = bytes[3] << 8 | bytes[4];
      plain = SSL_is_init_finished(ssl) ? std::max(length - kTypeAndTagBytes, 0) : 0;
      overhead += SSL3_RT_HEADER_LENGTH + length - plain;
    } else if (type == SSL3_RT_INNER_CONTENT_TYPE && bytes[0] != SSL3_RT_APPLICATION_DATA) {
      overhead += std::exchange(plain, 0);  // TLS's own
    }
  }
  static long bio_control(BIO*, int command, long, void*) {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }
  static const BIO_METHOD* bio_method() {
    static const auto method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "starling link");
      BIO_meth_set_write(made, bio_write);
      BIO_meth_set_read(made, bio_read);
      BIO_meth_set_ctrl(made, bio_control);
      return std::unique_ptr<BIO_METHOD, Freed<BIO_METHOD, BIO_meth_free>>(made);
    }();
    return method.get();
  }

  // Nothing that was encrypted is left to write: moved. It has no room, or has ended: as the link
  // says.
  Transfer flush(bool more_follows) {
    while (flushed < encrypted.size()) {
      const Transfer written =
          under->write_some(Parts{ConstBytes(encrypted).subspan(flushed)}, more_follows);
      if (written.status != Status::moved) return written;
      flushed += written.bytes;
    }
    encrypted.clear();
    flushed = 0;
    return {Status::moved};
  }

  void encrypt(ConstBytes plain) {
    if (++records % kRecordsOfAKey == 0) SSL_key_update(ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    std::size_t done = 0;
    const std::size_t before = encrypted.size();
    if (SSL_write_ex(ssl.get(), plain.data(), plain.size(), &done) != 1 || done != plain.size()) {
      fail_in_openssl("could not encrypt");
    }
    overhead_out += static_cast<std::int64_t>(encrypted.size() - before - done);
  }

  // How a step of OpenSSL ended that did not succeed.
  Transfer outcome(int returned) {
    const int error = SSL_get_error(ssl.get(), returned);
    const bool is_tls_error = error == SSL_ERROR_SSL && last_read.status == Status::moved;
    ERR_clear_error();
    if (error == SSL_ERROR_WANT_READ) return {Status::not_now};
    if (error == SSL_ERROR_ZERO_RETURN) return {Status::closed};
    if (is_tls_error) {
      return {Status::broken, 0, std::make_error_code(std::errc::bad_message)};
    }
    return {last_read.status == Status::moved ? Status::closed : last_read.status, 0,
            last_read.error};
  }

  Loop& loop;
  std::unique_ptr<Link> under;
  std::shared_ptr<SSL> ssl;
  std::vector<std::byte> encrypted;  // and not written yet
  std::size_t flushed = 0;           // of it
  bool owes_a_byte = false;          // the caller has been told of all that was encrypted but one
  std::vector<std::byte> record;     // where short parts come together
  std::uint64_t records = 0;
  std::int64_t overhead_out = 0;
  struct {
    std::int64_t overhead = 0;
    int plain = 0;  // what the last record holds
  } in;

  // OpenSSL's own reading ahead moves all that it has with every record.
  std::vector<std::byte> ahead;
  ConstBytes arrived;  // of it, and not decrypted yet
  Transfer last_read = {Status::not_now};
  bool has_more = false;  // something may be here that the link underneath does not know of
  Callback readable;
  std::coroutine_handle<> calling_back;  // soon
};

namespace {

// A coroutine that nobody waits for. It ends with its frame.
struct Errand {
  struct promise_type {
    Errand get_return_object() noexcept {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
  std::coroutine_handle<> frame;
};

// Behind those who are ready already.
class Turn : public Waiter {
 public:
  explicit Turn(Loop& loop) : loop_(loop) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> awaiter) noexcept {
    coroutine = awaiter;
    loop_.ready(*this);
  }
  void await_resume() const noexcept {}

 private:
  Loop& loop_;
};

// The callback may be the link's end, so it is kept until that has returned.
template <class Core>
Errand call_back_soon(std::shared_ptr<Core> core) {
  Turn turn(core->loop);
  co_await turn;
  core->calling_back = nullptr;
  const Link::Callback wanted = std::exchange(core->readable, nullptr);
  if (wanted) wanted();
}

}  // namespace

TlsLink::TlsLink(Loop& loop, std::unique_ptr<Link> under, const TlsKeys& keys, Side side)
    : core_(std::make_shared<Core>(loop, std::move(under), keys, side)) {
  core_->encrypted.reserve(2 * kMostAtOnceBytes);
  core_->record.resize(kRecordBytes);
  core_->ahead.resize(kReadAheadBytes);
}

TlsLink::~TlsLink() { close(); }

Task<> TlsLink::shake_hands() {
  Core& core = *core_;
  while (true) {
    const int returned = SSL_do_handshake(core.ssl.get());
    const Transfer ended = returned == 1 ? Transfer{Status::moved} : core.outcome(returned);
    core.overhead_out += static_cast<std::int64_t>(core.encrypted.size());
    const std::vector<std::byte> words = std::exchange(core.encrypted, {});
    if (ended.status == Status::moved || ended.status == Status::not_now) {
      co_await write_all(core.loop, *core.under, words);
      if (ended.status == Status::moved) break;
      co_await until_readable(core.loop, *core.under);
      continue;
    }
    write_at_once(*core.under, words);  // why, for the other end
    if (ended.status == Status::closed) throw HungUp("it hung up");
    if (ended.error != std::errc::bad_message) throw HungUp(ended.error.message());
    throw Error("it does not have this job's secret, or does not encrypt",
                "give all machines the same secret, and the same --tls and --certificates");
  }
  core.encrypted.reserve(2 * kMostAtOnceBytes);
  core.has_more = true;  // its first words may have come with the handshake's last
}

Link::Transfer TlsLink::write_some(const Parts& parts, bool more_follows) {
  Core& core = *core_;
  const Transfer before = core.flush(more_follows);
  if (before.status != Status::moved) return before;
  std::size_t told = std::exchange(core.owes_a_byte, false) ? 1 : 0, skip = told,
              room = kMostAtOnceBytes;
  std::size_t gathered = 0;
  const auto encrypt_gathered = [&] {
    if (gathered > 0) core.encrypt(ConstBytes(core.record).first(gathered));
    told += std::exchange(gathered, 0);
  };
  for (ConstBytes part : parts) {
    const std::size_t skipped = std::min(skip, part.size());
    part = part.subspan(skipped);
    skip -= skipped;
    part = part.first(std::min(part.size(), room));
    room -= part.size();
    while (!part.empty()) {
      // A record straight from where it lies; what is short goes together with what is around it.
      if (gathered == 0 && part.size() >= kRecordBytes) {
        core.encrypt(part.first(kRecordBytes));
        told += kRecordBytes;
        part = part.subspan(kRecordBytes);
        continue;
      }
      const std::size_t some = std::min(part.size(), kRecordBytes - gathered);
      std::copy_n(part.begin(), some, core.record.begin() + static_cast<std::ptrdiff_t>(gathered));
      gathered += some;
      part = part.subspan(some);
      if (gathered == kRecordBytes) encrypt_gathered();
    }
  }
  encrypt_gathered();
  const Transfer after = core.flush(more_follows);
  if (after.status == Status::moved) return {Status::moved, told};
  if (after.status != Status::not_now) return after;
  core.owes_a_byte = true;
  if (told == 1) return after;
  return {Status::moved, told - 1};
}

Link::Transfer TlsLink::read_some(const Places& places) {
  Core& core = *core_;
  std::size_t bytes = 0;
  core.has_more = true;
  for (Bytes place : places) {
    while (!place.empty()) {
      std::size_t some = 0;
      const int returned = SSL_read_ex(core.ssl.get(), place.data(), place.size(), &some);
      if (returned != 1) {
        core.has_more = false;
        const Transfer ended = core.outcome(0);
        return bytes > 0 ? Transfer{Status::moved, bytes} : ended;
      }
      bytes += some;
      place = place.subspan(some);
    }
  }
  // Whoever waits may wait for what we have here: the link underneath will not tell.
  if (core.readable && !core.calling_back) core.calling_back = call_back_soon(core_).frame;
  return {Status::moved, bytes};
}

void TlsLink::when_readable(Callback callback) {
  Core& core = *core_;
  core.readable = std::move(callback);
  if (!core.readable) return core.under->when_readable(nullptr);
  if (!core.has_more) {
    return core.under->when_readable([held = core_] {
      const Callback wanted = std::exchange(held->readable, nullptr);
      if (wanted) wanted();
    });
  }
  if (!core.calling_back) core.calling_back = call_back_soon(core_).frame;
}

void TlsLink::when_writable(Callback callback) { core_->under->when_writable(std::move(callback)); }

void TlsLink::close() {
  Core& core = *core_;
  core.readable = nullptr;
  if (core.calling_back) std::exchange(core.calling_back, nullptr).destroy();
  if (SSL_is_init_finished(core.ssl.get()) &&
      !(SSL_get_shutdown(core.ssl.get()) & SSL_SENT_SHUTDOWN)) {
    SSL_shutdown(core.ssl.get());  // says that this is the end, if there is room for it
    core.flush(false);
    ERR_clear_error();
  }
  core.under->close();
}

int TlsLink::descriptor() { return core_->under->descriptor(); }

Link::Signs TlsLink::signs_of_life() {
  Signs signs = core_->under->signs_of_life();
  signs.owes_answer = signs.owes_answer || !core_->encrypted.empty();
  return signs;
}

std::int64_t TlsLink::overhead_bytes(Direction direction) const {
  return direction == Direction::sent ? core_->overhead_out : core_->in.overhead;
}

}  // namespace starling
