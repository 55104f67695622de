// Learner: what computes with a copy of the model. The copy is in this process, or this process has a
// slice of it and the others of the copy have the rest (parallel/grid_learner.h).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "train/data_set.h"
#include "train/dist.h"

namespace starling {

class Learner {
 public:
  virtual ~Learner() = default;

  // Forward and backward of a batch, all backward passes but the last told to Dist::pass_over(). The
  // gradients are those of the mean loss times `weight`. Returns the mean loss, where it is known.
  virtual std::optional<double> learn(const DataSet::Batch& batch, double weight) = 0;
  // Forward alone: the scores, where they are known; else an undefined tensor.
  virtual torch::Tensor scores(const DataSet::Batch& batch) = 0;
  // Which place of Dist::copy() knows losses and scores.
  virtual int who_knows() const = 0;
  // Writes the whole copy into one file. All of the copy call it, and who_knows() writes.
  virtual void save(const std::filesystem::path& file,
                    const std::map<std::string, std::string>& metadata) = 0;
};

// Where models and learners come from: the session is there before the model, since a slice of one may
// need the others to be made.
class Workshop {
 public:
  virtual ~Workshop() = default;
  // Before there is a model, when a run is resumed; at any time after, to be so.
  virtual void visit_state(State) {}
  virtual Model make_model(Session& session, const DataSets& data) = 0;
  virtual std::unique_ptr<Learner> make_learner(Dist& dist) = 0;
};

// Whose copy is in this process.
std::unique_ptr<Learner> whole_learner(Dist& dist);
std::unique_ptr<Workshop> whole_workshop(const Settings& settings);

}  // namespace starling
