// The mean over all ranks where codes go over the wire (codec/codec.h), for any codec. All ranks end
// with the same bits. There are two ways:
//
//   through owners  every rank owns a part of the vector. The codes of all parts go to their owners,
//                   who decode them, form the mean, and send its code to everybody: 2 (n-1)/n codes
//                   a rank. What is coded twice is lost twice, so there are two residuals: everybody
//                   keeps what its own codes leave out, and owners what the codes of the mean do
//                   (H. Tang et al., DoubleSqueeze, 2019).
//   gathered        everybody's code goes to everybody, who sums them in the order of ranks: n-1
//                   codes a rank, coded once.
//
// Owners send less from three ranks on; of two ranks each sends one code both ways, and gathering
// loses less. Codes by a threshold are always gathered: the mean of what single ranks have sent lies
// below the threshold, so an owner would sit on it until it has come n times.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/range.h"
#include "codec/codec.h"
#include "runtime/group.h"

namespace starling {

// Which way codes go: the same on all ranks, as they have the same settings.
bool goes_through_owners(CodecSettings::Kind codec, int ranks);

// What a rank sends in a round, counted in codes of the whole vector.
double codes_sent(CodecSettings::Kind codec, int ranks);

// The matrices that lie within a stretch of a flat vector, as it has them. Where there are some
// elsewhere only, it is one of a single row.
std::vector<Fold> folds_in(std::span<const Fold> folds, Range range);

// The part of each rank: even ones, cut between matrices where there are any.
std::vector<Range> owned_parts(std::size_t elements, int ranks, std::span<const Fold> folds);

// For one stream of vectors of the same length: a bucket of gradients, the changes of a model. What
// codes leave out is added to the next vector, unless the settings have no feedback. All memory is
// sized when it is made.
class CodedAllreduce {
 public:
  // The stream's seed is the same on all ranks, which make their own of it.
  CodedAllreduce(Group group, const CodecSettings& settings, std::size_t elements,
                 const CodecStream& stream);

  // values <- the mean of everybody's, as far as codes carry it. If it fails, values are lost.
  Task<> mean(Channel channel, std::span<float> values);

  // Adds this rank's share of what codes have left out so far, and forgets it: a mean over all of
  // such values owes nothing any more. Without feedback there is nothing.
  void add_left_out(std::span<float> values);

  void visit_state(State state);

 private:
  // A code that comes in, of any length up to a bound.
  struct Arrival : Lender {
    std::optional<Bytes> lend(std::size_t bytes) override {
      code.resize(bytes);
      return code;
    }
    std::vector<std::byte> code;
  };
  // Every rank, ourselves among them.
  struct Peer {
    Range part;                    // that it owns; gathered: everything
    std::unique_ptr<Codec> codec;  // for that part of our vectors
    std::size_t largest_code_bytes = 0;
    std::vector<std::byte> code;  // of ours, for it
    Arrival arrival;              // from it
  };

  Task<> through_owners(Channel channel, std::span<float> values);
  Task<> gathered(Channel channel, std::span<float> values);
  Task<> swap(Channel channel, int to, const std::vector<std::byte>* code, int from,
              const Peer& owner);

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  Group group_;
  bool feedback_;
  bool owners_;
  std::vector<Peer> peers_;
  std::vector<float> residual_;  // what our codes have left out

  // Through owners: of the part that we own.
  std::unique_ptr<Codec> mean_codec_;
  std::vector<std::byte> mean_code_;
  std::vector<float> mean_;
  std::vector<float> mean_residual_;
};

}  // namespace starling
