#include "train/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/error.h"

namespace starling {

namespace {

constexpr std::size_t kLinesInBlock = 50;
constexpr std::size_t kBlocksToOneForValidation = 20;
constexpr std::uintmax_t kMaxTextBytes = std::uintmax_t{1} << 30;

void append_file(const std::filesystem::path& file, std::string& text) {
  std::ifstream stream(file, std::ios::binary);
  std::error_code failed;
  const std::uintmax_t bytes = std::filesystem::file_size(file, failed);
  if (failed || !stream) throw Error(fmt::format("{} cannot be read", file.string()));
  if (text.size() + bytes > kMaxTextBytes) {
    throw Error(fmt::format("{} makes more than 1 GB of text", file.string()),
                "all of it is kept in memory: train on less");
  }
  const std::size_t before = text.size();
  text.resize(before + bytes);
  stream.read(text.data() + before, static_cast<std::streamsize>(bytes));
  text.resize(before + static_cast<std::size_t>(stream.gcount()));
}

}  // namespace

TextSplit split_text(std::string_view text) {
  std::array<bool, 256> occurs{};
  for (char each : text) occurs[static_cast<std::uint8_t>(each)] = true;
  TextSplit split;
  std::array<std::uint8_t, 256> place{};
  for (std::size_t symbol = 0; symbol < occurs.size(); ++symbol) {
    if (!occurs[symbol]) continue;
    place[symbol] = static_cast<std::uint8_t>(split.symbols.size());
    split.symbols.push_back(static_cast<char>(symbol));
  }
  std::size_t line = 0;
  for (char each : text) {
    const bool validates =
        line / kLinesInBlock % kBlocksToOneForValidation == kBlocksToOneForValidation - 1;
    (validates ? split.validation : split.train).push_back(place[static_cast<std::uint8_t>(each)]);
    if (each == '\n') ++line;
  }
  return split;
}

TextSplit load_kjv(const std::filesystem::path& folder) {
  std::string text;
  try {
    append_file(folder / "kjv.txt", text);
  } catch (const Error& error) {
    throw Error(error.what(), "run `make kjv` to make it from Debian's packages");
  }
  return split_text(text);
}

TextSplit load_text(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  if (files.empty()) {
    throw Error(fmt::format("there is no text in '{}'", folder.string()),
                "name a folder that holds files ending in .txt with --data-folder");
  }
  std::ranges::sort(files);
  std::string text;
  for (const auto& file : files) append_file(file, text);
  return split_text(text);
}

TextWindows::TextWindows(std::vector<std::uint8_t> text, std::size_t context, std::size_t most)
    : text_(std::move(text)),
      context_(static_cast<std::int64_t>(context)),
      count_(text_.empty() ? 0 : (text_.size() - 1) / context) {
  if (most > 0) count_ = std::min(count_, most);
  if (count_ == 0) {
    throw Error(
        fmt::format("{} characters of text are too few for a context of {}", text_.size(), context),
        fmt::format("one line in {} is for validation, in blocks of {}: give it a few thousand "
                    "lines, or use a shorter --context",
                    kBlocksToOneForValidation, kLinesInBlock));
  }
  characters_ =
      torch::from_blob(text_.data(), {static_cast<std::int64_t>(text_.size())}, torch::kByte);
}

DataSet::Batch TextWindows::windows(const torch::Tensor& samples) const {
  const torch::Tensor places =
      samples.mul(context_).unsqueeze(1) + torch::arange(context_ + 1, torch::kLong);
  const torch::Tensor text =
      characters_.index_select(0, places.flatten()).to(torch::kLong).view(places.sizes());
  return {text.narrow(1, 0, context_), text.narrow(1, 1, context_)};
}

DataSet::Batch TextWindows::pick(std::span<const std::int64_t> samples) const {
  return windows(torch::from_blob(const_cast<std::int64_t*>(samples.data()),
                                  {static_cast<std::int64_t>(samples.size())}, torch::kLong));
}

DataSet::Batch TextWindows::slice(Range samples) const {
  return windows(torch::arange(static_cast<std::int64_t>(samples.begin),
                               static_cast<std::int64_t>(samples.end), torch::kLong));
}

}  // namespace starling
