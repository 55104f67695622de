#include "net/gcm.h"

#include "base/check.h"

#ifdef STARLING_IPSEC_MB
#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>
#else
#include <openssl/evp.h>
#endif

namespace starling {

namespace {

const unsigned char* octets(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* octets(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}  // namespace

#ifdef STARLING_IPSEC_MB

namespace {

// The functions for this processor.
IMB_MGR* imb() {
  static const auto made = [] {
    std::unique_ptr<IMB_MGR, void (*)(IMB_MGR*)> manager(alloc_mb_mgr(0), free_mb_mgr);
    STARLING_CHECK(manager != nullptr, "there is no memory for AES");
    init_mb_mgr_auto(manager.get(), nullptr);
    return manager;
  }();
  return made.get();
}

}  // namespace

struct Gcm::State {
  ~State() { OPENSSL_cleanse(this, sizeof *this); }
  Use use;
  alignas(64) gcm_key_data key;  // as its functions take it for granted
  alignas(64) gcm_context_data message;
};

Gcm::Gcm(const Key& key, Use use) : state_(std::make_unique<State>()) {
  state_->use = use;
  IMB_AES128_GCM_PRE(imb(), key.data(), &state_->key);
}

void Gcm::begin(const Nonce& nonce, ConstBytes authenticated) {
  IMB_AES128_GCM_INIT(imb(), &state_->key, &state_->message, nonce.data(),
                      octets(authenticated.data()), authenticated.size());
}

void Gcm::take(ConstBytes in, std::byte* out) {
  const auto update =
      state_->use == Use::seal ? imb()->gcm128_enc_update : imb()->gcm128_dec_update;
  update(&state_->key, &state_->message, octets(out), octets(in.data()), in.size());
}

void Gcm::write_tag(std::byte* tag) {
  IMB_AES128_GCM_ENC_FINALIZE(imb(), &state_->key, &state_->message, octets(tag), kTagBytes);
}

bool Gcm::has_tag(const std::byte* tag) {
  std::array<unsigned char, kTagBytes> own;
  IMB_AES128_GCM_DEC_FINALIZE(imb(), &state_->key, &state_->message, own.data(), own.size());
  return CRYPTO_memcmp(own.data(), tag, own.size()) == 0;
}

#else

struct Gcm::State {
  std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> message{EVP_CIPHER_CTX_new(),
                                                                     EVP_CIPHER_CTX_free};
};

// None of these fails but for want of memory.
Gcm::Gcm(const Key& key, Use use) : state_(std::make_unique<State>()) {
  const int done = EVP_CipherInit_ex(state_->message.get(), EVP_aes_128_gcm(), nullptr, key.data(),
                                     nullptr, use == Use::seal ? 1 : 0);
  STARLING_CHECK(done == 1, "there is no AES");
}

void Gcm::begin(const Nonce& nonce, ConstBytes authenticated) {
  EVP_CipherInit_ex(state_->message.get(), nullptr, nullptr, nullptr, nonce.data(), -1);
  take(authenticated, nullptr);
}

void Gcm::take(ConstBytes in, std::byte* out) {
  int length = 0;
  const int done = EVP_CipherUpdate(state_->message.get(), octets(out), &length, octets(in.data()),
                                    static_cast<int>(in.size()));
  STARLING_CHECK(done == 1, "AES takes no {} bytes", in.size());
}

void Gcm::write_tag(std::byte* tag) {
  int length = 0;
  EVP_CipherFinal_ex(state_->message.get(), octets(tag), &length);
  EVP_CIPHER_CTX_ctrl(state_->message.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag);
}

bool Gcm::has_tag(const std::byte* tag) {
  std::array<unsigned char, kTagBytes> expected;
  std::copy_n(octets(tag), kTagBytes, expected.begin());
  EVP_CIPHER_CTX_ctrl(state_->message.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, expected.data());
  int length = 0;
  return EVP_CipherFinal_ex(state_->message.get(), expected.data(), &length) == 1;
}

#endif

Gcm::~Gcm() = default;
Gcm::Gcm(Gcm&&) noexcept = default;
Gcm& Gcm::operator=(Gcm&&) noexcept = default;

}  // namespace starling
