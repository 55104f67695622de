// A library to preload that lets one worker of the built-in trainer end by an exception: ReLU, which
// the models call in every step, throws in worker THROW_RANK once the file THROW_WHEN exists.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace {

bool is_due() {
  static const char* const rank = std::getenv("STARLING_RANK");
  static const char* const chosen = std::getenv("THROW_RANK");
  static const char* const when = std::getenv("THROW_WHEN");
  if (rank == nullptr || chosen == nullptr || when == nullptr) return false;
  return std::string(rank) == chosen && ::access(when, F_OK) == 0;
}

}  // namespace

// at::Tensor at::_ops::relu::call(const at::Tensor&): what it returns is built where the caller says.
extern "C" void* _ZN2at4_ops4relu4callERKNS_6TensorE(void* result, const void* self) {
  using Relu = void*(void*, const void*);
  static auto* const next =
      reinterpret_cast<Relu*>(::dlsym(RTLD_NEXT, "_ZN2at4_ops4relu4callERKNS_6TensorE"));
  if (is_due()) throw std::runtime_error("the data is bad");
  return next(result, self);
}
