// Text as a data set: a sample is a window of characters, and at each place of it the character that
// comes next is what a model should say.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/data_set.h"

namespace starling {

// A text cut in two. Characters are bytes, and stand for themselves by their place among `symbols`.
struct TextSplit {
  std::string symbols;  // those that occur, in order
  std::vector<std::uint8_t> train, validation;
};

// Lines in blocks of 50: every 20th block is for validation, so that both have something of every
// part.
TextSplit split_text(std::string_view text);

// The King James Bible, as scripts/get-kjv leaves it.
TextSplit load_kjv(const std::filesystem::path& folder);
// All files of a folder that end in .txt, one after the other by name.
TextSplit load_text(const std::filesystem::path& folder);

// Windows of `context` characters, one behind the other. Throws Error if there is none.
class TextWindows : public DataSet {
 public:
  TextWindows(std::vector<std::uint8_t> text, std::size_t context, std::size_t most = 0);

  std::size_t count() const override { return count_; }
  Batch pick(std::span<const std::int64_t> samples) const override;
  Batch slice(Range samples) const override;
  std::size_t samples_at_once() const override { return 32; }

 private:
  Batch windows(const torch::Tensor& samples) const;

  std::vector<std::uint8_t> text_;
  std::int64_t context_;
  std::size_t count_;
  torch::Tensor characters_;  // aliases text_
};

}  // namespace starling
