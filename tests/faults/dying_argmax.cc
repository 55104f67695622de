// A library to preload that kills one worker of the built-in trainer when its training is over: argmax,
// which only evaluations call, ends worker DIES_RANK, once the others have had time to finish, too. For
// trainings that do not evaluate before.
#include <ATen/core/Tensor.h>
#include <ATen/ops/argmax_ops.h>
#include <dlfcn.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

constexpr std::chrono::milliseconds kForTheOthers{1500};

void die_if_due() {
  const char* const rank = std::getenv("STARLING_RANK");
  const char* const chosen = std::getenv("DIES_RANK");
  const char* const guest = std::getenv("STARLING_GUEST_OF");
  const bool was_started_again = guest != nullptr && *guest != '\0';
  if (rank == nullptr || chosen == nullptr || was_started_again) return;
  if (std::strcmp(rank, chosen) != 0) return;
  std::this_thread::sleep_for(kForTheOthers);
  ::raise(SIGKILL);
}

}  // namespace

at::Tensor at::_ops::argmax::call(const at::Tensor& self, c10::optional<int64_t> dim,
                                  bool keepdim) {
  using Argmax = at::Tensor(const at::Tensor&, c10::optional<int64_t>, bool);
  static auto* const next = [] {
    Dl_info own{};  // the name as the compiler writes it
    ::dladdr(reinterpret_cast<void*>(&at::_ops::argmax::call), &own);
    return reinterpret_cast<Argmax*>(::dlsym(RTLD_NEXT, own.dli_sname));
  }();
  die_if_due();
  return next(self, dim, keepdim);
}
