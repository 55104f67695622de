// TensorGroup: ranks that share every layer of a network. All of them compute on the same batch, each
// with its slices of the parameters, and what one lacks comes from the others in the middle of the
// forward or backward pass:
//
//            forward                              backward
//   spread   as it is                             gradients of all ranks add up
//   sum      what all ranks have adds up          as it is
//   gather   the slices of all ranks, joined      this rank's slice
//   take     this rank's slice                    the slices of all ranks, joined
//   fetch    rows that other ranks have           their gradients, added up where the rows came from
//
// Each is a function like torch's own, and waits for the others there and then. What is the same on
// all ranks before a layer is the same after it, bit for bit, gradients and all.
//
// - All ranks call the same functions in the same order, forward and backward.
// - A wait drives the loop where it stands, with a deadline of its own. So no coroutine may compute
//   with shared layers: others would run on top of its frame, and might end it.
#pragma once

#include <torch/types.h>

#include <memory>

#include <functional>
#include <span>

#include "exchange/allreduce.h"
#include "train/slice.h"

namespace starling {

class TensorGroup {
 public:
  // With channels of its own (GroupNumber::tensor). The timeout is of each wait.
  explicit TensorGroup(Group group, Time timeout = std::chrono::seconds(60));

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  Group group() const { return group_; }

  // What they send from now on, this copy of the group and all others, is for an evaluation.
  void set_evaluating(bool evaluating) const { *evaluating_ = evaluating; }

  // How `size` of a dimension is shared out. Throws Error if somebody would get nothing; `what` names
  // what there is too little of.
  Slice slice(std::int64_t dimension, std::int64_t size, const char* what,
              std::int64_t stretches = 1, std::int64_t grain = 1) const;

  // Activations, or a parameter that all ranks have whole and use for different parts of the work.
  torch::Tensor spread(const torch::Tensor& x, Purpose purpose = Purpose::activations) const;
  torch::Tensor sum(const torch::Tensor& x) const;
  torch::Tensor gather(const torch::Tensor& x, const Slice& slice) const;
  torch::Tensor take(const torch::Tensor& x, const Slice& slice) const;
  // Of a dimension that is shared out in `owned` ranges, those that this rank needs: one range a
  // rank, in both. Ranges that are needed may overlap, and reach over several ranks.
  torch::Tensor fetch(const torch::Tensor& x, std::int64_t dimension, std::vector<Range> owned,
                      std::vector<Range> needed) const;

 private:
  Purpose activations() const { return *evaluating_ ? Purpose::evaluation : Purpose::activations; }
  void wait(const char* what, Task<> task) const;
  torch::Tensor added_up(const torch::Tensor& x, Purpose purpose) const;
  torch::Tensor joined(const torch::Tensor& x, const Slice& slice) const;
  torch::Tensor fetched(const torch::Tensor& x, std::int64_t dimension,
                        std::span<const Range> owned, std::span<const Range> needed) const;
  torch::Tensor given_back(const torch::Tensor& x, std::int64_t dimension,
                           std::span<const Range> owned, std::span<const Range> needed) const;
  // To each rank one tensor, from each one; ours and empty ones do not travel.
  void swap(const std::vector<torch::Tensor>& out, std::vector<torch::Tensor>& in) const;

  Group group_;
  Time timeout_;
  std::shared_ptr<bool> evaluating_ = std::make_shared<bool>(false);
};

// A tensor's memory, which is contiguous, of 32- or 64-bit floats.
Vector vector_of(const torch::Tensor& tensor);

}  // namespace starling
