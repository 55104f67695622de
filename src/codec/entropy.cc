// The code: one byte that says whether the inner code follows as it is or as a zstd frame. So it is
// never more than that byte longer.
#include "codec/entropy.h"

#include <fmt/format.h>
#include <zstd.h>

#include <new>

namespace starling {

namespace {

constexpr std::byte kStored{0}, kZstd{1};
constexpr int kLevel = 1;  // the codes are short and have no long repetitions: more finds no more

struct Free {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

template <class Context>
std::unique_ptr<Context, Free> owned(Context* context) {
  if (context == nullptr) throw std::bad_alloc();
  return std::unique_ptr<Context, Free>(context);
}

class Entropy : public Codec {
 public:
  explicit Entropy(std::unique_ptr<Codec> inner) : inner_(std::move(inner)) {}

  void encode(std::span<float> values, std::vector<std::byte>& code) override {
    inner_->encode(values, plain_);
    code.reserve(largest_code_bytes(values.size()));
    code.resize(1 + plain_.size());
    // Where a frame finds no room that would be shorter, zstd gives up.
    const std::size_t room = plain_.empty() ? 0 : plain_.size() - 1;
    const std::size_t bytes = ZSTD_compressCCtx(compressor_.get(), code.data() + 1, room,
                                                plain_.data(), plain_.size(), kLevel);
    const bool shorter = !ZSTD_isError(bytes);
    code[0] = shorter ? kZstd : kStored;
    if (shorter) {
      code.resize(1 + bytes);
    } else {
      std::ranges::copy(plain_, code.begin() + 1);
    }
  }

  void add_decoded(ConstBytes code, std::span<float> into) const override {
    if (code.empty() || (code[0] != kStored && code[0] != kZstd)) {
      throw BadCode("a code says neither that it is stored nor that it is compressed");
    }
    const std::size_t largest = inner_->largest_code_bytes(into.size());
    if (inflated_.size() < largest) inflated_.resize(largest);  // now, as any code may need it
    const ConstBytes rest = code.subspan(1);
    inner_->add_decoded(code[0] == kStored ? rest : inflate(rest, largest), into);
  }

  std::size_t largest_code_bytes(std::size_t elements) const override {
    return 1 + inner_->largest_code_bytes(elements);
  }

  void visit_state(State state) override { inner_->visit_state(state); }

 private:
  // Whatever length the frame claims, there is room for the largest code and no more.
  ConstBytes inflate(ConstBytes frame, std::size_t room) const {
    const std::size_t bytes = ZSTD_decompressDCtx(decompressor_.get(), inflated_.data(), room,
                                                  frame.data(), frame.size());
    if (ZSTD_isError(bytes)) {
      throw BadCode(fmt::format("a code of up to {} bytes cannot be decompressed ({})", room,
                                ZSTD_getErrorName(bytes)));
    }
    return ConstBytes(inflated_).first(bytes);
  }

  std::unique_ptr<Codec> inner_;
  std::unique_ptr<ZSTD_CCtx, Free> compressor_ = owned(ZSTD_createCCtx());
  std::vector<std::byte> plain_;
  mutable std::unique_ptr<ZSTD_DCtx, Free> decompressor_ = owned(ZSTD_createDCtx());
  mutable std::vector<std::byte> inflated_;
};

}  // namespace

std::unique_ptr<Codec> with_entropy(std::unique_ptr<Codec> codec) {
  return std::make_unique<Entropy>(std::move(codec));
}

}  // namespace starling
