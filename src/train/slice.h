// Which slice of a whole parameter a rank has, where several ranks share every layer. All of them know
// how it is shared out, so that each can say what any other one has.
#pragma once

#include <torch/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/range.h"

namespace torch::nn {
class Module;
}

namespace starling {

struct Slice {
  std::int64_t dimension = 0;  // along which the whole is cut
  std::int64_t size = 0;       // of the whole, there
  // So many stretches lie one behind the other, each of which is shared out, as in one matrix for
  // queries, keys and values.
  std::int64_t stretches = 1;
  // So many neighbours belong together, as the pixels of one channel, and are not cut apart.
  std::int64_t grain = 1;
  int rank = 0;
  int ranks = 1;

  // What a rank has: one range of each stretch. Shares differ by at most one grain.
  std::vector<Range> ranges(int of) const;
  std::int64_t size_of(int of) const;
  // This rank's part of a whole tensor, in memory of its own.
  torch::Tensor take(const torch::Tensor& whole) const;
  // Puts a rank's part in its place.
  void put(const torch::Tensor& part, int of, torch::Tensor whole) const;
};

// A module that has slices of the parameters and buffers named here; others it has whole.
struct Sliced {
  virtual ~Sliced() = default;
  std::map<std::string, Slice> slices;
};

std::optional<Slice> find_slice(const torch::nn::Module& module, const std::string& parameter);

}  // namespace starling
