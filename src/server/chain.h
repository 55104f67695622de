// Which servers hold which shard. Shard s is on servers s, s + 1, ... around the ring of servers, so
// that replicas need no further processes. They are a *chain* (R. van Renesse, F. Schneider, Chain
// Replication, 2004): workers talk to its *head*, the first that is left; each tells the next what
// has happened to the shard, and what the last one has is safe. Nothing is answered before it is.
#pragma once

namespace starling {

struct Chain {
  int first_server = 0;  // server k is rank first_server + k of the group
  int servers = 1;
  int replicas = 1;
  // A server that begins with nothing, in the place of one that was lost: it is the last of each of its
  // chains, and counts once it has been told what there is. -1: none.
  int newcomer = -1;

  bool replicates() const { return replicas > 1; }
  // How far behind the shard's first server a rank stands on the ring: what tells the shards of a
  // server apart.
  int distance(int shard, int rank) const {
    return (rank - first_server - shard + servers) % servers;
  }
  // Who stands at that position of a shard's chain, as a rank of the group,
  int rank_at(int shard, int position) const {
    const int place = newcomer < 0 ? replicas : distance(shard, first_server + newcomer);
    if (place >= replicas || position < place) return first_server + (shard + position) % servers;
    return first_server + (position + 1 == replicas ? newcomer : (shard + position + 1) % servers);
  }
  // and at which position a rank stands.
  int position_of(int shard, int rank) const {
    for (int position = 0; position < replicas; ++position) {
      if (rank_at(shard, position) == rank) return position;
    }
    return -1;
  }
  bool is_newcomer(int rank) const { return newcomer >= 0 && rank == first_server + newcomer; }
};

}  // namespace starling
