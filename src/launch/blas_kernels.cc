#include "launch/blas_kernels.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace starling {

namespace {

constexpr int kPatienceMs = 20'000;  // to load the library takes some milliseconds

constexpr std::array kSseKernels = {"Katmai",     "Coppermine", "Northwood", "Prescott",
                                    "Banias",     "Atom",       "Core2",     "Penryn",
                                    "Dunnington", "Nehalem",    "Athlon",    "Opteron",
                                    "Barcelona",  "Bobcat",     "Nano",      "Opteron_SSE3"};
constexpr std::array kAvxKernels = {"Sandybridge", "Bulldozer", "Piledriver", "Steamroller"};
constexpr std::array kAvx2Kernels = {"Haswell", "Zen", "Excavator"};

// A name that is not here is newer than this list.
Vectors vectors_of(std::string_view kernels) {
  const auto among = [&](const auto& names) {
    return std::ranges::find(names, kernels) != names.end();
  };
  if (among(kSseKernels)) return Vectors::kSse;
  if (among(kAvxKernels)) return Vectors::kAvx;
  if (among(kAvx2Kernels)) return Vectors::kAvx2;
  return Vectors::kAvx512;
}

[[noreturn]] void tell_kernels(const char* library, int to) {
  if (void* blas = ::dlopen(library, RTLD_LAZY)) {
    using GetName = const char*();
    if (auto* name = reinterpret_cast<GetName*>(::dlsym(blas, "openblas_get_corename"))) {
      [[maybe_unused]] const auto written = ::write(to, name(), std::strlen(name()));
    }
  }
  ::_exit(0);
}

}  // namespace

Vectors processor_vectors() {
#ifdef __x86_64__
  // Each is there only if the system saves its registers, too.
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return Vectors::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Vectors::kAvx2;
  if (__builtin_cpu_supports("avx")) return Vectors::kAvx;
#endif
  return Vectors::kSse;
}

std::string better_kernels(std::string_view library_choice, Vectors processor) {
  if (vectors_of(library_choice) >= processor) return "";
  switch (processor) {
    case Vectors::kAvx512:
      // Cooperlake's are better for bfloat16 alone, and a library built without them takes Haswell's.
      return "SkylakeX";
    case Vectors::kAvx2:
      return "Haswell";
    case Vectors::kAvx:
      return "Sandybridge";
    case Vectors::kSse:
      break;
  }
  return "";
}

std::string library_kernels(const char* library) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  const pid_t child = ::fork();
  if (child == 0) tell_kernels(library, ends[1]);
  ::close(ends[1]);
  std::string name;
  if (child > 0) {
    pollfd answer{ends[0], POLLIN, 0};
    char bytes[64];
    if (::poll(&answer, 1, kPatienceMs) == 1) {
      const ssize_t got = ::read(ends[0], bytes, sizeof bytes);
      if (got > 0) name.assign(bytes, static_cast<std::size_t>(got));
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  ::close(ends[0]);
  return name;
}

BlasKernels blas_kernels() {
  const std::string own = library_kernels();
  if (std::getenv(kBlasKernelsVariable) != nullptr) return {own, false};
  const std::string better = better_kernels(own, processor_vectors());
  return better.empty() ? BlasKernels{own, false} : BlasKernels{better, true};
}

}  // namespace starling
