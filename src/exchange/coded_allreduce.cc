#include "exchange/coded_allreduce.h"

#include <algorithm>

#include "base/random.h"
#include "math/vector_math.h"

namespace starling {

bool goes_through_owners(CodecSettings::Kind codec, int ranks) {
  return ranks > 2 && codec != CodecSettings::Kind::threshold;
}

double codes_sent(CodecSettings::Kind codec, int ranks) {
  const double others = ranks - 1;
  return goes_through_owners(codec, ranks) ? 2 * others / ranks : others;
}

std::vector<Fold> folds_in(std::span<const Fold> folds, Range range) {
  std::vector<Fold> inside;
  for (const Fold& fold : folds) {
    if (fold.begin < range.begin || fold.begin + fold.rows * fold.columns > range.end) continue;
    inside.push_back({fold.begin - range.begin, fold.rows, fold.columns});
  }
  // One row, or a codec would look for a matrix of its own where there is none.
  if (inside.empty() && !folds.empty() && range.size() > 0) inside.push_back({0, 1, range.size()});
  return inside;
}

std::vector<Range> owned_parts(std::size_t elements, int ranks, std::span<const Fold> folds) {
  std::vector<Range> parts(static_cast<std::size_t>(ranks));
  std::size_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::size_t end = part(elements, parts.size(), i).end;
    for (const Fold& fold : folds) {
      const std::size_t fold_end = fold.begin + fold.rows * fold.columns;
      if (end <= fold.begin || end >= fold_end) continue;
      end = end - fold.begin < fold_end - end ? fold.begin : fold_end;  // the nearer end
      break;
    }
    parts[i] = {begin, end};
    begin = end;
  }
  return parts;
}

CodedAllreduce::CodedAllreduce(Group group, const CodecSettings& settings, std::size_t elements,
                               const CodecStream& stream)
    : group_(group),
      feedback_(settings.feedback),
      owners_(goes_through_owners(settings.kind, group.size())),
      peers_(static_cast<std::size_t>(group.size())),
      residual_(elements) {
  const auto codec_for = [&](Range range, std::uint64_t use) {
    Random random{stream.seed, static_cast<std::uint64_t>(group.rank()), use};
    return make_codec(settings, {random.bits(), folds_in(stream.folds, range)});
  };
  std::vector<Range> parts(peers_.size(), Range{0, elements});
  if (owners_) parts = owned_parts(elements, group.size(), stream.folds);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& to = peers_[i];
    to.part = parts[i];
    if (!owners_ && &to != &peer(group.rank())) continue;  // one code is for all
    to.codec = codec_for(to.part, i);
    to.largest_code_bytes = to.codec->largest_code_bytes(to.part.size());
    to.code.reserve(to.largest_code_bytes);
  }
  const Peer& own = peer(group.rank());
  for (Peer& from : peers_) {
    from.arrival.code.reserve(std::max(own.largest_code_bytes, from.largest_code_bytes));
  }
  if (!owners_) return;
  mean_codec_ = codec_for(own.part, peers_.size());
  mean_code_.reserve(own.largest_code_bytes);
  mean_.resize(own.part.size());
  mean_residual_.resize(own.part.size());
}

Task<> CodedAllreduce::mean(Channel channel, std::span<float> values) {
  if (group_.size() == 1 || values.empty()) co_return;
  if (feedback_) add(values, residual_);
  if (owners_) {
    co_await through_owners(channel.in("a coded all-reduce"), values);
  } else {
    co_await gathered(channel.in("a coded all-reduce"), values);
  }
}

void CodedAllreduce::add_left_out(std::span<float> values) {
  if (!feedback_) return;
  add(values, residual_);
  std::ranges::fill(residual_, 0.0f);
  if (!owners_) return;
  // What an owner's codes leave out is of the mean already.
  const Range own = peer(group_.rank()).part;
  subtract_scaled(values.subspan(own.begin, own.size()), mean_residual_,
                  -static_cast<float>(group_.size()));
  std::ranges::fill(mean_residual_, 0.0f);
}

void CodedAllreduce::visit_state(State state) {
  state("residual", residual_);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].codec) peers_[i].codec->visit_state(state.in(i));
  }
  if (!owners_) return;
  state("mean_residual", mean_residual_);
  mean_codec_->visit_state(state.in("mean"));
}

// In rotation, as all_to_all.cc has it: step s goes to the rank s places on.
Task<> CodedAllreduce::through_owners(Channel channel, std::span<float> values) {
  const int rank = group_.rank(), size = group_.size();
  Peer& own = peer(rank);
  {
    const auto encoding = group_.record(Timeline::Kind::encode, "encode");
    for (Peer& to : peers_) {
      if (to.part.size() == 0) continue;
      to.codec->encode(values.subspan(to.part.begin, to.part.size()), to.code);
    }
    std::ranges::copy(values, residual_.begin());
  }
  for (int shift = 1; shift < size; ++shift) {
    const int to = group_.ring(rank + shift), from = group_.ring(rank - shift);
    co_await swap(channel, to, peer(to).part.size() > 0 ? &peer(to).code : nullptr, from, own);
  }

  if (own.part.size() > 0) {
    const auto encoding = group_.record(Timeline::Kind::encode, "encode");
    std::ranges::fill(mean_, 0.0f);
    for (int from = 0; from < size; ++from) {
      own.codec->add_decoded(from == rank ? own.code : peer(from).arrival.code, mean_);
    }
    scale(mean_, 1.0f / static_cast<float>(size));
    if (feedback_) add(mean_, mean_residual_);
    mean_codec_->encode(mean_, mean_code_);
    mean_.swap(mean_residual_);
  }
  for (int shift = 1; shift < size; ++shift) {
    const int to = group_.ring(rank + shift), from = group_.ring(rank - shift);
    co_await swap(channel, to, own.part.size() > 0 ? &mean_code_ : nullptr, from, peer(from));
  }

  const auto decoding = group_.record(Timeline::Kind::encode, "decode");
  std::ranges::fill(values, 0.0f);
  for (int owner = 0; owner < size; ++owner) {
    const Peer& of = peer(owner);
    if (of.part.size() == 0) continue;
    of.codec->add_decoded(owner == rank ? mean_code_ : of.arrival.code,
                          values.subspan(of.part.begin, of.part.size()));
  }
}

Task<> CodedAllreduce::gathered(Channel channel, std::span<float> values) {
  const int rank = group_.rank(), size = group_.size();
  Peer& own = peer(rank);
  {
    const auto encoding = group_.record(Timeline::Kind::encode, "encode");
    own.codec->encode(values, own.code);
    std::ranges::copy(values, residual_.begin());
  }
  for (int shift = 1; shift < size; ++shift) {
    co_await swap(channel, group_.ring(rank + shift), &own.code, group_.ring(rank - shift), own);
  }

  const auto decoding = group_.record(Timeline::Kind::encode, "decode");
  std::ranges::fill(values, 0.0f);
  for (int from = 0; from < size; ++from) {
    own.codec->add_decoded(from == rank ? own.code : peer(from).arrival.code, values);
  }
  scale(values, 1.0f / static_cast<float>(size));
}

// Our code, if there is one, while one of what the owner has comes in, if it has anything.
Task<> CodedAllreduce::swap(Channel channel, int to, const std::vector<std::byte>* code, int from,
                            const Peer& owner) {
  std::optional<Receive> arrival;
  std::optional<Send> departure;
  if (owner.part.size() > 0) {
    arrival.emplace(group_, from, channel, owner.largest_code_bytes, peer(from).arrival);
  }
  if (code != nullptr) departure.emplace(group_, to, channel, ConstBytes(*code));
  if (departure) {
    Send& sent = *departure;
    co_await sent;
  }
  if (arrival) {
    Receive& received = *arrival;
    co_await received;
  }
}

}  // namespace starling
