#include "train/digit_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "train/idx.h"

namespace starling {

namespace {

DigitSet load_split(const std::filesystem::path& folder, const std::string& split) {
  const auto image_file = folder / (split + "-images-idx3-ubyte");
  const auto label_file = folder / (split + "-labels-idx1-ubyte");

  IdxArray images = read_idx(image_file, 3);
  const std::size_t count = images.shape[0];
  const std::size_t rows = images.shape[1];
  const std::size_t cols = images.shape[2];
  if (rows != kDigitSide || cols != kDigitSide) {
    throw Error(fmt::format("{} has images of {} x {}, not {} x {}", image_file.string(), rows,
                            cols, kDigitSide, kDigitSide));
  }

  IdxArray labels = read_idx(label_file, 1);
  if (labels.shape[0] != count) {
    throw Error(fmt::format("{} has {} labels for the {} images of {}", label_file.string(),
                            labels.shape[0], count, image_file.filename().string()));
  }
  const auto bad = std::ranges::find_if(labels.values, [](auto l) { return l >= kDigitClasses; });
  if (bad != labels.values.end()) {
    throw Error(fmt::format("{} has the label {} at position {}, not a digit", label_file.string(),
                            *bad, bad - labels.values.begin()));
  }
  return {std::move(images.values), std::move(labels.values), count, rows, cols};
}

Digits load_both(const std::filesystem::path& folder, const std::string& got_by) {
  try {
    return {load_split(folder, "train"), load_split(folder, "t10k")};
  } catch (const Error& error) {
    throw Error(error.what(),
                fmt::format("run `{}` to fetch it again, or use --data synthetic", got_by));
  }
}

}  // namespace

Digits load_mnist(const std::filesystem::path& folder) { return load_both(folder, "make mnist"); }

Digits load_fashion_mnist(const std::filesystem::path& folder) {
  Digits clothes = load_both(folder, "make fashion-mnist");
  for (DigitSet* set : {&clothes.train, &clothes.test}) {
    set->mean = 0.2861;
    set->deviation = 0.3529;
  }
  return clothes;
}

}  // namespace starling
