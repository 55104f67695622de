#include "net/tls_link.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <charconv>
#include <coroutine>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "net/tls_records.h"

namespace starling {

namespace {

// So many bytes are sealed, and written with one call of the kernel: a frame of the mesh, with room.
// Half as many made a stream a quarter slower, though they are nearer to the processor. Each of three
// parts may end with a record that is not full, and a new key has one of its own.
constexpr std::size_t kMostAtOnceBytes = 272 * 1024;
constexpr std::size_t kMostRecordsAtOnce = kMostAtOnceBytes / TlsRecords::kMostBytes + 4;
constexpr std::size_t kSealedBytes =
    kMostAtOnceBytes + kMostRecordsAtOnce * TlsRecords::kAddedBytes;

// What TLS says for itself, in records of its own.
constexpr std::array kCloseNotify = {std::byte{1}, std::byte{0}};
constexpr std::array kKeyUpdate = {std::byte{24}, std::byte{0}, std::byte{0}, std::byte{1},
                                   std::byte{0}};

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

// nullptr where there are certificates instead.
const std::string* secret_of(SSL* ssl) {
  return static_cast<const std::string*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

// Once hands are shaken. A listener may pass over the key that it is offered, and show a certificate
// that nobody has asked for; only with the key is it as if a session were resumed.
bool is_stranger(SSL* ssl) { return secret_of(ssl) != nullptr && SSL_session_reused(ssl) == 0; }

int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, std::size_t* length,
              SSL_SESSION** session) {
  *session = nullptr;
  if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) return 1;
  *identity = kIdentity;
  *length = sizeof kIdentity - 1;
  *session = session_of(ssl, *secret_of(ssl)).release();
  return 1;
}

int find_key(SSL* ssl, const unsigned char* identity, std::size_t length, SSL_SESSION** session) {
  *session = nullptr;
  if (std::equal(identity, identity + length, kIdentity, kIdentity + sizeof kIdentity - 1)) {
    *session = session_of(ssl, *secret_of(ssl)).release();
  }
  return 1;
}

// Of what each side sends.
struct TrafficSecrets {
  TlsRecords::Secret caller, listener;
};

// OpenSSL tells the secrets for those who look at recorded traffic, in lines of three words: whose, of
// which connection, and the secret in hexadecimal digits.
void keep_secret(const SSL* ssl, const char* line) {
  auto& secrets = *static_cast<TrafficSecrets*>(SSL_get_app_data(ssl));
  const std::string_view words(line);
  const std::string_view whose = words.substr(0, words.find(' '));
  const std::string_view digits = words.substr(words.rfind(' ') + 1);
  TlsRecords::Secret* const secret = whose == "CLIENT_TRAFFIC_SECRET_0"   ? &secrets.caller
                                     : whose == "SERVER_TRAFFIC_SECRET_0" ? &secrets.listener
                                                                          : nullptr;
  if (secret == nullptr || digits.size() != 2 * secret->size()) return;
  for (std::size_t i = 0; i < secret->size(); ++i) {
    const char* const digit = digits.data() + 2 * i;
    std::from_chars(digit, digit + 2, (*secret)[i], 16);
  }
}

std::shared_ptr<SSL_CTX> make_context() {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (!context) fail_in_openssl("OpenSSL has no TLS");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_keylog_callback(context.get(), keep_secret);
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

namespace {

// Takes so many bytes of the places away from their front.
Link::Places take(Link::Places& places, std::size_t bytes) {
  Link::Places taken;
  for (std::size_t i = 0; i < places.size(); ++i) {
    taken[i] = places[i].first(std::min(bytes, places[i].size()));
    places[i] = places[i].subspan(taken[i].size());
    bytes -= taken[i].size();
  }
  return taken;
}

std::size_t size_of(const Link::Places& places) {
  return places[0].size() + places[1].size() + places[2].size();
}

}  // namespace

struct TlsLink::Core {
  Core(Loop& the_loop, std::unique_ptr<Link> the_link, const TlsKeys& keys, Side the_side)
      : loop(the_loop),
        under(std::move(the_link)),
        side(the_side),
        ssl(SSL_new(&keys.context()), SSL_free),
        sealed(std::make_unique_for_overwrite<std::byte[]>(kSealedBytes)),
        ahead(std::make_unique_for_overwrite<std::byte[]>(kSealedBytes)) {
    if (!ssl) fail_in_openssl("there is no memory for an encrypted link");
    BIO* const bio = BIO_new(bio_method());
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl.get(), bio, bio);
    SSL_set_app_data(ssl.get(), &secrets);
    if (side == Side::caller) {
      SSL_set_connect_state(ssl.get());
    } else {
      SSL_set_accept_state(ssl.get());
    }
  }

  // What OpenSSL shakes hands with.
  static int bio_write(BIO* bio, const char* data, int length) {
    auto& core = *static_cast<Core*>(BIO_get_data(bio));
    const auto* const bytes = reinterpret_cast<const std::byte*>(data);
    core.words.insert(core.words.end(), bytes, bytes + length);
    return length;
  }
  static int bio_read(BIO* bio, char* data, int length) {
    auto& core = *static_cast<Core*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (core.arrived.empty()) core.last_read = core.fetch();
    if (!core.arrived.empty()) {
      const std::size_t some = std::min(core.arrived.size(), static_cast<std::size_t>(length));
      std::copy_n(core.arrived.begin(), some, reinterpret_cast<std::byte*>(data));
      core.arrived = core.arrived.subspan(some);
      core.overhead_in += static_cast<std::int64_t>(some);
      return static_cast<int>(some);
    }
    if (core.last_read.status == Status::not_now) BIO_set_retry_read(bio);
    return core.last_read.status == Status::closed ? 0 : -1;
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

  // How a step of OpenSSL ended that did not succeed.
  Transfer outcome(int returned) {
    const int error = SSL_get_error(ssl.get(), returned);
    const bool is_tls_error = error == SSL_ERROR_SSL && last_read.status == Status::moved;
    ERR_clear_error();
    if (error == SSL_ERROR_WANT_READ) return {Status::not_now};
    if (error == SSL_ERROR_ZERO_RETURN) return {Status::closed};
    if (is_tls_error) return forged();
    return {last_read.status == Status::moved ? Status::closed : last_read.status, 0,
            last_read.error};
  }

  // From here on records are ours.
  void hands_are_shaken() {
    const bool calls = side == Side::caller;
    out.emplace(calls ? secrets.caller : secrets.listener, Gcm::Use::seal);
    in.emplace(calls ? secrets.listener : secrets.caller, Gcm::Use::open);
    OPENSSL_cleanse(&secrets, sizeof secrets);
    ssl.reset();
  }

  void seal(TlsRecords::Type type, std::span<const ConstBytes> parts) {
    std::size_t bytes = 0;
    for (const ConstBytes part : parts) bytes += part.size();
    out->seal(type, parts, sealed.get() + sealed_bytes);
    sealed_bytes += bytes + TlsRecords::kAddedBytes;
    overhead_out += TlsRecords::kAddedBytes;
    if (type != TlsRecords::Type::data) overhead_out += static_cast<std::int64_t>(bytes);
  }
  void seal_data(std::span<const ConstBytes> parts) {
    if (out->key_is_used_up()) {
      seal(TlsRecords::Type::handshake, std::array{ConstBytes(kKeyUpdate)});
      out->update_key();
    }
    seal(TlsRecords::Type::data, parts);
  }

  // Nothing that was sealed is left to write: moved. It has no room, or has ended: as the link says.
  Transfer flush(bool more_follows) {
    while (flushed < sealed_bytes) {
      const ConstBytes rest(sealed.get() + flushed, sealed_bytes - flushed);
      const Transfer written = under->write_some(Parts{rest}, more_follows);
      if (written.status != Status::moved) return written;
      flushed += written.bytes;
    }
    sealed_bytes = flushed = 0;
    return {Status::moved};
  }

  // Reads what the link has, behind what is here already.
  Transfer fetch() {
    const Bytes space(ahead.get(), kSealedBytes);
    std::ranges::copy(arrived, space.begin());  // towards the front, if anywhere
    const Transfer got = under->read_some(space.subspan(arrived.size()));
    arrived = space.first(arrived.size() + got.bytes);
    return got;
  }

  // How many bytes the next record holds; nothing if it is not here to its end.
  std::optional<std::size_t> next_record() {
    if (arrived.size() < TlsRecords::kHeaderBytes) return std::nullopt;
    const std::optional<std::size_t> held =
        TlsRecords::held_bytes(arrived.first<TlsRecords::kHeaderBytes>());
    if (!held) failure = forged();
    if (!held || arrived.size() < *held + TlsRecords::kAddedBytes) return std::nullopt;
    return held;
  }

  // Opens the next record, straight into its place if there is one; returns how many bytes came there.
  // What TLS says for itself is short: it must not come into anybody's place.
  std::size_t open_record(std::size_t held, Places& places) {
    constexpr std::size_t kShortBytes = 64;
    const ConstBytes record = arrived.first(held + TlsRecords::kAddedBytes);
    arrived = arrived.subspan(record.size());
    overhead_in += TlsRecords::kAddedBytes;
    const bool straight = held > kShortBytes && held <= size_of(places);
    const Bytes aside = Bytes(spare).first(straight ? 0 : held);
    const auto type =
        straight ? in->open(record, take(places, held)) : in->open(record, std::array{aside});
    if (type == TlsRecords::Type::data) {
      opened = aside;
      return straight ? held : 0;
    }
    overhead_in += static_cast<std::int64_t>(held);
    if (type == TlsRecords::Type::handshake && std::ranges::equal(aside, kKeyUpdate)) {
      in->update_key();
    } else if (type == TlsRecords::Type::alert && std::ranges::equal(aside, kCloseNotify)) {
      failure = {Status::closed};
    } else {
      failure = forged();
    }
    return 0;
  }

  std::size_t hand_out(Places& places) {
    const std::size_t bytes = std::min(opened.size(), size_of(places));
    for (const Bytes place : take(places, bytes)) {
      std::ranges::copy(opened.first(place.size()), place.begin());
      opened = opened.subspan(place.size());
    }
    return bytes;
  }

  // Something is here that the link underneath does not know of.
  bool has_more() { return !opened.empty() || next_record() || failure; }

  static Transfer forged() {
    return {Status::broken, 0, std::make_error_code(std::errc::bad_message)};
  }

  Loop& loop;
  std::unique_ptr<Link> under;
  Side side;

  std::shared_ptr<SSL> ssl;  // until hands are shaken
  TrafficSecrets secrets = {};
  std::vector<std::byte> words;  // of the handshake, to be written
  Transfer last_read = {Status::not_now};

  std::optional<TlsRecords> out, in;    // from then on
  std::unique_ptr<std::byte[]> sealed;  // and not written yet
  std::size_t sealed_bytes = 0;
  std::size_t flushed = 0;   // of them
  bool owes_a_byte = false;  // the caller has been told of all that was sealed but one
  std::int64_t overhead_out = 0;

  std::unique_ptr<std::byte[]> ahead;  // what was read of the link
  ConstBytes arrived;                  // of it, and not opened yet
  std::array<std::byte, TlsRecords::kMostBytes> spare;
  ConstBytes opened;                // of it, and not handed out yet
  std::optional<Transfer> failure;  // how reading has ended
  std::int64_t overhead_in = 0;

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
    : core_(std::make_shared<Core>(loop, std::move(under), keys, side)) {}

TlsLink::~TlsLink() { close(); }

Task<> TlsLink::shake_hands() {
  Core& core = *core_;
  while (true) {
    const int returned = SSL_do_handshake(core.ssl.get());
    Transfer ended = returned == 1 ? Transfer{Status::moved} : core.outcome(returned);
    if (returned == 1 && is_stranger(core.ssl.get())) {
      ended = Core::forged();
      core.words.clear();
    }
    core.overhead_out += static_cast<std::int64_t>(core.words.size());
    const std::vector<std::byte> words = std::exchange(core.words, {});
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
  core.hands_are_shaken();
}

Link::Transfer TlsLink::write_some(const Parts& parts, bool more_follows) {
  Core& core = *core_;
  const Transfer before = core.flush(more_follows);
  if (before.status != Status::moved) return before;
  std::size_t told = std::exchange(core.owes_a_byte, false) ? 1 : 0, skip = told,
              room = kMostAtOnceBytes;
  Parts record;
  std::size_t record_bytes = 0;
  const auto end_record = [&] {
    if (record_bytes > 0) core.seal_data(record);
    told += std::exchange(record_bytes, 0);
    record = {};
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ConstBytes part = parts[i].subspan(std::min(skip, parts[i].size()));
    skip -= parts[i].size() - part.size();
    part = part.first(std::min(part.size(), room));
    room -= part.size();
    // What is long begins a record, so that it is opened where it belongs; what is short goes together.
    if (part.size() >= TlsRecords::kMostBytes) end_record();
    while (!part.empty()) {
      record[i] = part.first(std::min(part.size(), TlsRecords::kMostBytes - record_bytes));
      record_bytes += record[i].size();
      part = part.subspan(record[i].size());
      if (record_bytes == TlsRecords::kMostBytes) end_record();
    }
  }
  end_record();
  const Transfer after = core.flush(more_follows);
  if (after.status == Status::moved) return {Status::moved, told};
  if (after.status != Status::not_now) return after;
  core.owes_a_byte = true;
  if (told == 1) return after;
  return {Status::moved, told - 1};
}

Link::Transfer TlsLink::read_some(const Places& places) {
  Core& core = *core_;
  Places rest = places;
  std::size_t bytes = 0;
  while (true) {
    bytes += core.hand_out(rest);
    if (size_of(rest) == 0) break;
    const std::optional<std::size_t> held = core.next_record();
    Transfer got = core.failure.value_or(Transfer{Status::moved});
    if (held && !core.failure) {
      bytes += core.open_record(*held, rest);
    } else if (!core.failure) {
      got = core.fetch();
    }
    if (got.status != Status::moved) return bytes > 0 ? Transfer{Status::moved, bytes} : got;
  }
  // Whoever waits may wait for what we have here: the link underneath will not tell.
  if (core.readable && !core.calling_back && core.has_more()) {
    core.calling_back = call_back_soon(core_).frame;
  }
  return {Status::moved, bytes};
}

void TlsLink::when_readable(Callback callback) {
  Core& core = *core_;
  core.readable = std::move(callback);
  if (!core.readable) return core.under->when_readable(nullptr);
  if (!core.has_more()) {
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
  if (core.out) {  // says that this is the end, if there is room for it
    if (core.flush(true).status == Status::moved) {
      core.seal(TlsRecords::Type::alert, std::array{ConstBytes(kCloseNotify)});
      core.flush(false);
    }
    core.out.reset();
  }
  core.under->close();
}

int TlsLink::descriptor() { return core_->under->descriptor(); }

Link::Signs TlsLink::signs_of_life() {
  Signs signs = core_->under->signs_of_life();
  signs.owes_answer = signs.owes_answer || core_->sealed_bytes > 0;
  return signs;
}

std::int64_t TlsLink::overhead_bytes(Direction direction) const {
  return direction == Direction::sent ? core_->overhead_out : core_->overhead_in;
}

}  // namespace starling
