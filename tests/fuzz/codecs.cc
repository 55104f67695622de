// The codes of every codec, which peers send.
#include "codec/codec.h"

#include "tests/fuzz/fuzz.h"

namespace starling {

void fuzz_codecs(ConstBytes input) {
  Pieces pieces(input);
  CodecSettings settings;
  const auto& names = names_of(CodecSettings::Kind{}).each;
  settings.kind = named<CodecSettings::Kind>(names[pieces.number() % names.size()]);
  settings.entropy = pieces.number() % 2 == 1;
  std::vector<float> into(pieces.number() * 4 + pieces.number() % 4);
  std::unique_ptr<Codec> codec;
  try {
    codec = make_codec(settings);
  } catch (const Error&) {
    return;  // no entropy for that one
  }
  const ConstBytes code = pieces.rest();
  if (code.size() > codec->largest_code_bytes(into.size())) return;  // refused unread
  try {
    codec->add_decoded(code, into);
  } catch (const BadCode&) {
  }
}

}  // namespace starling
