// Group: some ranks of a Comm, in an order, with channels of their own. Algorithms know their group
// and nothing else: in it, ranks are places from 0 to size() - 1, whoever stands there. So the same
// text serves all workers, the workers of a host, a stage of a pipeline, or those who are left.
//
// - A group has a number. All of its members know it by the same one, and no two groups that have
//   two ranks in common have the same: what is said in one is not heard in another, also at the same
//   time and on the same channel.
// - A Comm is the group of everybody, with the number 0.
// - It is a handle, cheap to copy, and coroutines take it by value.
// - Errors name ranks of the Comm, since that is who people know.
#pragma once

#include <span>
#include <vector>

#include "runtime/comm.h"

namespace starling {

class Group {
 public:
  static constexpr std::uint32_t kChannels = 1 << 20;  // of each group
  static constexpr std::uint32_t kNumbers = 1 << 12;

  Group(Comm& comm) : comm_(&comm), size_(comm.size()), rank_(comm.rank()) {}
  // These ranks of the Comm; ours may be missing, then rank() is -1.
  Group(Comm& comm, std::span<const int> ranks, std::uint32_t number)
      : comm_(&comm),
        ranks_(comm.keep_ranks(ranks)),
        size_(static_cast<int>(ranks.size())),
        rank_(-1),
        number_(checked(number)) {
    for (int place = 0; place < size_; ++place) {
      if (in_comm(place) == comm.rank()) rank_ = place;
    }
  }
  // The same ranks with channels of their own.
  Group apart(std::uint32_t number) const {
    Group other = *this;
    other.number_ = checked(number);
    return other;
  }
  // Those who stand at these places, on its channels: they take turns with other groups of it.
  Group some(std::span<const int> places) const {
    std::vector<int> ranks;
    for (int place : places) ranks.push_back(in_comm(place));
    return Group(*comm_, ranks, number_);
  }
  // The first few of them, with channels of their own.
  Group first(int size, std::uint32_t number) const {
    Group some = apart(number);
    some.size_ = size;
    if (rank_ >= size) some.rank_ = -1;
    return some;
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Any place, counted around the ring: ring(rank() - 1) is the predecessor.
  int ring(int position) const { return (position % size_ + size_) % size_; }

  Comm& comm() const { return *comm_; }
  // Who stands there.
  int in_comm(int place) const {
    return ranks_ == nullptr ? place : ranks_[static_cast<std::size_t>(place)];
  }
  Channel in_comm(Channel channel) const {
    STARLING_CHECK(channel.id < kChannels, "a group has no channel {}", channel.id);
    return {number_ * kChannels + channel.id, channel.purpose, channel.operation};
  }

  [[nodiscard]] Send send(int to, Channel channel, ConstBytes bytes) const {
    return Send(*this, to, channel, bytes);
  }
  [[nodiscard]] Receive receive(int from, Channel channel, Bytes bytes) const {
    return Receive(*this, from, channel, bytes);
  }
  template <class T>
  [[nodiscard]] Send send(int to, Channel channel, std::span<T> values) const {
    return Send(*this, to, channel, bytes_of(values));
  }
  template <class T>
  [[nodiscard]] Receive receive(int from, Channel channel, std::span<T> values) const {
    return Receive(*this, from, channel, writable_bytes(values));
  }
  // With a head, and sized on arrival.
  [[nodiscard]] Send send(int to, Channel channel, ConstBytes head, ConstBytes bytes) const {
    return Send(*this, to, channel, bytes, head);
  }
  [[nodiscard]] Receive receive(int from, Channel channel, Bytes head, Bytes bytes) const {
    return Receive(*this, from, channel, bytes, head);
  }
  [[nodiscard]] Receive receive(int from, Channel channel, Bytes head, std::size_t most_bytes,
                                Lender& lender) const {
    return Receive(*this, from, channel, most_bytes, lender, head);
  }

  // The loss of one of these ranks is from now on an event that only those who talk to it must deal
  // with: the others can go on for one another.
  void contain_losses() const {
    std::vector<int> voters;
    const bool everybody = ranks_ == nullptr && size_ == comm_->size();
    for (int place = 0; place < size_ && !everybody; ++place) voters.push_back(in_comm(place));
    comm_->contain_losses(std::move(voters));
  }
  bool is_lost(int place) const { return comm_->is_lost(in_comm(place)); }
  int lost_count() const {
    int count = 0;
    for (int place = 0; place < size_; ++place) count += is_lost(place) ? 1 : 0;
    return count;
  }
  Bell& losses() const { return comm_->losses(); }

  Loop& loop() const { return comm_->loop(); }
  const Ledger& ledger() const { return comm_->ledger(); }
  Timeline& timeline() const { return comm_->timeline(); }
  [[nodiscard]] Timeline::Scope record(Timeline::Kind kind, const char* name) const {
    return comm_->record(kind, name);
  }
  template <class T>
  Scratch<T> lend(std::size_t elements) const {
    return comm_->lend<T>(elements);
  }

 private:
  static std::uint32_t checked(std::uint32_t number) {
    STARLING_CHECK(number < kNumbers, "there is no group {}", number);
    return number;
  }

  Comm* comm_;
  const int* ranks_ = nullptr;  // nullptr: as they are in the Comm
  int size_;
  int rank_;
  std::uint32_t number_ = 0;
};

inline Send::Send(const Group& group, int to, Channel channel, ConstBytes data, ConstBytes h)
    : Send(group.comm(), group.in_comm(to), group.in_comm(channel), data, h) {}
inline Receive::Receive(const Group& group, int from, Channel channel, Bytes data, Bytes h)
    : Receive(group.comm(), group.in_comm(from), group.in_comm(channel), data, h) {}
inline Receive::Receive(const Group& group, int from, Channel channel, std::size_t most,
                        Lender& lender, Bytes h)
    : Receive(group.comm(), group.in_comm(from), group.in_comm(channel), most, lender, h) {}

}  // namespace starling
