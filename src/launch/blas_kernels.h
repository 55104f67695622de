// Whose kernels multiply the workers' matrices.
//
// OpenBLAS looks the processor up in a table of models. One that is newer than the table gets the
// kernels of a Prescott of 2004, which know nothing of the wide vectors it has: products then take
// several times as long. OPENBLAS_CORETYPE, set before the library is loaded, names better ones.
#pragma once

#include <string>
#include <string_view>

namespace starling {

inline constexpr const char* kBlasKernelsVariable = "OPENBLAS_CORETYPE";

// What kernels are written for, each better than the one before.
enum class Vectors { kSse, kAvx, kAvx2, kAvx512 };

// What this processor can do; kSse stands for all that is not x86, where the library is left alone.
Vectors processor_vectors();

// The name, as OpenBLAS has it, of the kernels to take instead of `library_choice`, or "" if those
// make use of all that the processor can do, or nobody here knows them.
std::string better_kernels(std::string_view library_choice, Vectors processor);

// The kernels that OpenBLAS takes in the present environment, "" if it cannot be loaded. Asked in a
// process of its own: the library does not belong into this one.
std::string library_kernels(const char* library = "libopenblas.so.0");

struct BlasKernels {
  std::string name;          // what workers multiply with; "" if there is no OpenBLAS
  bool must_be_set = false;  // by kBlasKernelsVariable, for the library would take older ones
};
// On this machine. What somebody has set stays.
BlasKernels blas_kernels();

}  // namespace starling
