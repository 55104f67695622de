#include "server/journal.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/race.h"

namespace starling {

Journal::Journal(Group group, const Chain& chain, int shard, int position,
                 std::function<bool()> may_go_on)
    : group_(group),
      chain_(chain),
      shard_(shard),
      position_(position),
      may_go_on_(std::move(may_go_on)),
      is_last_(position + 1 == chain.replicas ||
               chain.is_newcomer(chain.rank_at(shard, position + 1))),
      written_(group.loop()),
      receipts_(group.loop()) {}

void Journal::write(Record record, std::initializer_list<ConstBytes> parts) {
  std::size_t size = 0;
  for (const ConstBytes& part : parts) size += part.size();
  const bool goes_on = !is_last_ || fills_;
  Scratch<std::byte> bytes = group_.lend<std::byte>(goes_on ? size : 0);
  auto end = bytes.span().begin();
  for (const ConstBytes& part : parts) {
    if (goes_on) end = std::ranges::copy(part, end).out;
  }
  record.number = last_ + 1;
  keep(record, std::move(bytes));
}

void Journal::keep(const Record& record, Scratch<std::byte> bytes) {
  last_ = record.number;
  if (!is_last_ || fills_) kept_.push_back({record, std::move(bytes)});
  if (is_last_) note_safe(last_);
  written_.ring();
}

void Journal::note_safe(std::uint64_t number) {
  safe_ = std::max(safe_, number);
  while (!fills_ && !kept_.empty() && kept_.front().record.number <= safe_) kept_.pop_front();
  receipts_.ring();
}

Task<> Journal::until_safe() {
  const std::uint64_t number = last_;
  while (safe_ < number) co_await receipts_.rung();
}

Task<> Journal::send_on(PieceSource& shard) {
  for (int position = position_ + 1; position < chain_.replicas; ++position) {
    const int rank = chain_.rank_at(shard_, position);
    try {
      co_await send_to(rank, shard);
    } catch (const PeerLost& lost) {
      if (lost.rank() != group_.in_comm(rank) || !may_go_on_()) throw;
    }
  }
  fills_ = false;
  is_last_ = true;
  note_safe(last_);
}

Task<> Journal::send_to(int rank, PieceSource& shard) {
  Receipt first;
  co_await group_.receive(rank, from(rank), object_bytes(first));
  if (chain_.is_newcomer(rank) && first.has == 0 && last_ > 0) {
    co_await fill(rank, shard);
    first = {last_, last_};
  }
  is_last_ = false;
  if (first.has < safe_ || first.has > last_ || first.safe > first.has) complain(rank, "receipt");
  note_safe(first.safe);
  Task<int> both = race(send_after(rank, first.has), hear_receipts(rank));
  co_await both;
}

// Until the newcomer has been sent all there is.
Task<> Journal::fill(int rank, PieceSource& shard) {
  is_last_ = true;
  note_safe(last_);
  fills_ = true;
  std::vector<std::byte> bytes;
  for (std::size_t number = 0; number < shard.pieces(); ++number) {
    Record piece = shard.piece(number, bytes);
    piece.number = last_;
    co_await group_.send(rank, to(rank), object_bytes(piece), ConstBytes(bytes));
    while (!kept_.empty()) {
      Entry& entry = kept_.front();
      co_await group_.send(rank, to(rank), object_bytes(entry.record),
                           bytes_of(entry.bytes.span()));
      kept_.pop_front();
    }
  }
  fills_ = false;
}

Task<> Journal::send_after(int rank, std::uint64_t has) {
  for (std::uint64_t number = has + 1;; ++number) {
    while (number > last_) co_await written_.rung();
    // None is forgotten before its receipt comes, and those before it are.
    Entry& entry = kept_[number - kept_.front().record.number];
    co_await group_.send(rank, to(rank), object_bytes(entry.record), bytes_of(entry.bytes.span()));
  }
}

Task<> Journal::hear_receipts(int rank) {
  while (true) {
    Receipt receipt;
    co_await group_.receive(rank, from(rank), object_bytes(receipt));
    if (receipt.safe > last_) complain(rank, "receipt");
    note_safe(receipt.safe);
  }
}

Task<> Journal::follow(Replay replay, std::function<std::size_t()> most_bytes,
                       std::function<bool()> begin_anew) {
  for (int position = position_ - 1; position >= 0; --position) {
    const int before = chain_.rank_at(shard_, position);
    if (chain_.is_newcomer(group_.rank()) && begin_anew()) last_ = safe_ = 0;
    try {
      co_await follow(before, replay, most_bytes);
    } catch (const PeerLost& lost) {
      if (lost.rank() != group_.in_comm(before) || !may_go_on_()) throw;
    }
  }
}

Task<> Journal::follow(int before, const Replay& replay,
                       const std::function<std::size_t()>& most_bytes) {
  Receipt receipt{last_, safe_};
  co_await group_.send(before, from(group_.rank()), object_bytes(receipt));
  Task<int> both =
      race(hear_records(before, replay, most_bytes), give_receipts(before, receipt.safe));
  co_await both;
}

Task<> Journal::hear_records(int before, const Replay& replay,
                             const std::function<std::size_t()>& most_bytes) {
  struct Page : Lender {
    explicit Page(Group g) : group(g) {}
    std::optional<Bytes> lend(std::size_t bytes) override {
      memory.emplace(group.lend<std::byte>(bytes));
      return memory->span();
    }
    Group group;
    std::optional<Scratch<std::byte>> memory;
  } page(group_);
  while (true) {
    Record record;
    co_await group_.receive(before, to(group_.rank()), object_bytes(record), most_bytes(), page);
    const bool is_next = record.number == last_ + 1;
    const bool is_piece = (record.kind == Record::Kind::outline && last_ == 0) ||
                          (record.kind == Record::Kind::state && record.number == last_);
    if (!is_next && !is_piece) complain(before, "record");
    replay(record, page.memory->span());
    if (is_next) {
      keep(record, std::move(*page.memory));
    } else {
      last_ = record.number;
      note_safe(last_);
    }
    page.memory.reset();
  }
}

Task<> Journal::give_receipts(int before, std::uint64_t told) {
  while (true) {
    while (told == safe_) co_await receipts_.rung();
    told = safe_;
    Receipt receipt{last_, told};
    co_await group_.send(before, from(group_.rank()), object_bytes(receipt));
  }
}

void Journal::complain(int rank, const char* of_what) const {
  throw Error(fmt::format("rank {} sent a {} of shard {} that makes no sense", group_.in_comm(rank),
                          of_what, shard_),
              "all servers must run the same program with the same settings");
}

}  // namespace starling
