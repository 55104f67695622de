// The all-reduce family: every rank ends with the sum over all ranks (or their smallest, largest or
// product), the same bits everywhere and in every run, for any number of ranks, any length and any
// element type. They differ in bytes and in how many messages follow one another:
//
//   naive             all send to rank 0, which sends the sum back
//   tree              binomial reduction to rank 0, binomial broadcast
//   scatter_reduce    each rank sums its part, rank 0 collects the parts and hands them out again
//   ring              n - 1 steps of share-reduce, n - 1 of share-only; 2 (n-1)/n |w| a rank, the
//                     least possible
//   doubling          recursive doubling: log2 n exchanges of the whole vector; best for short ones
//   halving_doubling  Rabenseifner: the ring's bytes in 2 log2 n messages
//   all_to_all        everybody sends all it has to everybody, (n-1) |w| a rank, in one round
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "math/reduce.h"
#include "runtime/group.h"

namespace starling {

// For the mean, its sum: allreduce() divides.
using Allreduce = Task<>(Group group, Channel channel, Vector values, Reduction reduction);

Allreduce naive_allreduce;
Allreduce tree_allreduce;
Allreduce scatter_reduce_allreduce;
Allreduce ring_allreduce;
Allreduce doubling_allreduce;
Allreduce halving_doubling_allreduce;
Allreduce all_to_all_allreduce;

struct NamedAllreduce {
  std::string_view name;
  Allreduce* run;
};
inline constexpr std::array<NamedAllreduce, 7> kAllreduces = {{
    {"naive", naive_allreduce},
    {"tree", tree_allreduce},
    {"scatter-reduce", scatter_reduce_allreduce},
    {"ring", ring_allreduce},
    {"doubling", doubling_allreduce},
    {"halving-doubling", halving_doubling_allreduce},
    {"all-to-all", all_to_all_allreduce},
}};

// Their names, "a, b, c", with `before_last` in front of the last one.
std::string allreduces_listed(std::string_view before_last = ", ");

// The one of that name, or "auto" (exchange/choice.h); throws Error naming those there are.
Allreduce* find_allreduce(std::string_view name);

// Any reduction by that algorithm.
Task<> allreduce(Allreduce* algorithm, Group group, Channel channel, Vector values,
                 Reduction reduction);

}  // namespace starling
