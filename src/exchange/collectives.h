// The collective exchanges beside all-reduce. All ranks of the group call the same one with vectors of
// the same type; each ends alike for any number of ranks and any length.
//
// *Pieces* say where in a vector what belongs to each rank lies, in the order of ranks. They may be
// of unequal length, and empty; even_pieces(vector, n) are of equal length.
#pragma once

#include <span>
#include <vector>

#include "base/range.h"
#include "math/reduce.h"
#include "runtime/group.h"

namespace starling {

using Pieces = std::span<const Range>;

// n pieces of equal length, which must fit.
std::vector<Range> even_pieces(ConstVector values, int n);

// The root's values, on every rank, by a binomial tree.
Task<> broadcast(Group group, Channel channel, Vector values, int root);

// The root ends with the reduction over all ranks, by a binomial tree; the others' values are used
// up. Of the mean, its sum.
Task<> reduce(Group group, Channel channel, Vector values, Reduction reduction, int root);

// Rank r ends with the reduction over all ranks in piece r; the rest of its values is used up. Of the
// mean, its sum. Around the ring, (n-1)/n |values| a rank.
Task<> reduce_scatter(Group group, Channel channel, Vector values, Pieces pieces,
                      Reduction reduction);

// Every rank's piece on every rank; ours is in place. Around the ring, (n-1)/n |all| a rank.
Task<> all_gather(Group group, Channel channel, Vector all, Pieces pieces);

// Every rank's piece in the root's `all`, which is looked at nowhere else.
Task<> gather(Group group, Channel channel, ConstVector piece, Vector all, Pieces pieces, int root);

// Of the root's `all`, which is looked at nowhere else, each rank its piece.
Task<> scatter(Group group, Channel channel, ConstVector all, Pieces pieces, Vector piece,
               int root);

// Piece r of `out` goes to rank r, whose piece for us becomes piece r of `in`.
Task<> all_to_all(Group group, Channel channel, ConstVector out, Pieces out_pieces, Vector in,
                  Pieces in_pieces);

// Nobody leaves before everybody has come.
Task<> barrier(Group group, Channel channel);

}  // namespace starling
