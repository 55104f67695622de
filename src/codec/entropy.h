// Zstd over the code of any codec, where that makes it shorter.
#pragma once

#include <memory>

#include "codec/codec.h"

namespace starling {

std::unique_ptr<Codec> with_entropy(std::unique_ptr<Codec> codec);

}  // namespace starling
