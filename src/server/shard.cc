#include "server/shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "server/block_state.h"

namespace starling {

Shard::Held::Held(const KeyInfo& key, Shard& of, const Block::Options& options)
    : shard(of),
      info(key),
      block(of.loop_, options, *of.gate_, of.report_),
      keeping_up(block.keep_up()) {
  if (of.journal_ != nullptr) block.set_witness(*this);
}

void Shard::Held::will_update(const Block::Update& update) {
  notes.clear();
  for (const Push& push : update.pushes) {
    notes.push_back({static_cast<std::uint64_t>(push.worker), push.clock, push.version});
  }
  Record record{Record::Kind::update};
  record.key = info.key;
  record.count = notes.size();
  record.lr_factor = update.lr_factor;
  record.dropped = shard.report_.dropped;
  shard.write(record, {bytes_of(std::span(notes)), bytes_of(update.gradient)});
}

void Shard::Held::was_read(int worker) {
  Record record{Record::Kind::read, static_cast<std::uint32_t>(worker)};
  record.key = info.key;
  shard.write(record);
}

Shard::Shard(Loop& loop, const ServerOptions& options, Journal* journal, State past)
    : loop_(loop),
      options_(options),
      journal_(journal),
      gate_(make_gate(options.gate)),
      clerk_(loop, options.clerk, options.workers),
      past_(std::move(past)),
      done_(static_cast<std::size_t>(options.workers)) {}

void Shard::write(Record record, std::initializer_list<ConstBytes> bytes) {
  if (journal_ != nullptr && !replaying_) journal_->write(record, bytes);
}

void Shard::make(const WorkPlan& plan, std::span<const KeyInfo> keys) {
  plan_ = plan;
  clerk_.plan(plan);
  make_blocks(keys);
  if (past_.restores()) {
    restore();
    std::vector<std::byte> bytes;
    for (std::size_t number = 0; number < pieces() && journal_ != nullptr; ++number) {
      const Record record = piece(number, bytes);
      write(record, {bytes});
    }
    return;
  }
  Record record{Record::Kind::plan};
  record.units = plan.units;
  record.units_per_epoch = plan.units_per_epoch;
  write(record, {bytes_of(keys)});
}

void Shard::make_blocks(std::span<const KeyInfo> keys) {
  std::uint64_t all_elements = 0;
  for (const KeyInfo& key : keys) {
    all_elements += key.elements;
    if (key.elements == 0 || key.elements > kMaxBlockElements || key.key >= kMaxKeys ||
        key.begin > kMaxShardElements || all_elements > kMaxShardElements) {
      throw Error(fmt::format("a worker asks for a block of {} elements", key.elements),
                  kSameSettings);
    }
    const Block::Options options{key.elements, options_.workers, options_.optimizer,
                                 options_.staleness, options_.codec.codes()};
    blocks_.emplace_back(key, *this, options);
    if (options_.codec.codes()) make_codecs(blocks_.back());
    if (follower_) blocks_.back().block.follow(follower_);
    for (int worker = 0; worker < options_.workers; ++worker) {
      if (is_done(worker)) blocks_.back().block.leave(worker);  // lost before the first hello
    }
  }
}

void Shard::visit_state(State state) {
  state("report", report_);
  clerk_.visit_state(state.in("clerk"));
  visit_blocks(state);
}

void Shard::visit_blocks(State state) {
  for (Held& held : blocks_) {
    if (state.saves() && !(held.is_known && held.block.has_weights())) continue;
    visit_block(held, state.in("blocks").in(held.info.begin));
  }
}

void Shard::visit_block(Held& held, State state) {
  held.block.visit_state(state);
  for (std::size_t worker = 0; worker < held.writers.size(); ++worker) {
    held.writers[worker]->visit_state(state.in("writers").in(worker));
  }
}

void Shard::restore() {
  if (past_.restores_all()) return visit_state(past_);
  past_("report", report_);
  const StoredBlocks stored(past_.under("blocks/"));
  for (Held& held : blocks_) {
    const Range range{held.info.begin, held.info.begin + held.info.elements};
    if (options_.elastic && !stored.cover(range)) continue;  // a worker will put it
    const Snapshot block = stored.in(range);
    visit_block(held, State::restoring(block));
  }
}

Record Shard::piece(std::size_t number, std::vector<std::byte>& bytes) {
  if (number == 0) return outline(bytes);
  return state_of(*std::next(blocks_.begin(), static_cast<std::ptrdiff_t>(number - 1)), bytes);
}

void Shard::visit_outline(State state) {
  state("report", report_);
  state("done", done_);
  clerk_.visit_copy(state.in("clerk"));
}

Record Shard::outline(std::vector<std::byte>& bytes) {
  Record record{Record::Kind::outline};
  record.units = plan_->units;
  record.units_per_epoch = plan_->units_per_epoch;
  record.count = blocks_.size();
  bytes.clear();
  for (const Held& held : blocks_) {
    const ConstBytes info = bytes_of(std::span(&held.info, 1));
    bytes.insert(bytes.end(), info.begin(), info.end());
  }
  Snapshot rest;
  visit_outline(State::saving(rest));
  encode(rest, [&](ConstBytes part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  return record;
}

Record Shard::state_of(Held& held, std::vector<std::byte>& bytes) {
  Record record{Record::Kind::state};
  record.key = held.info.key;
  Snapshot state;
  if (held.block.has_weights()) held.block.visit_state(State::saving(state));
  bytes = held.block.has_weights() ? encode(state) : std::vector<std::byte>();
  return record;
}

bool Shard::begin_anew() {
  if (plan_ && std::ranges::all_of(blocks_, &Held::is_known)) return false;
  blocks_.clear();
  plan_.reset();
  return true;
}

void Shard::make_codecs(Held& held) const {
  held.reader = options_.codec.for_pushes(0, held.info.key);
  held.most_bytes =
      std::max<std::size_t>(held.info.elements * sizeof(float),  // of the first weights
                            held.reader->largest_code_bytes(held.info.elements));
  for (int worker = 0; worker < options_.workers; ++worker) {
    held.writers.push_back(
        options_.codec.for_pulls(static_cast<std::uint64_t>(worker), held.info.key));
  }
}

bool Shard::is_of(const WorkPlan& plan, std::span<const KeyInfo> keys) const {
  const auto same = [](const Held& held, const KeyInfo& key) { return held.info == key; };
  return plan == *plan_ && std::ranges::equal(blocks_, keys, same);
}

bool Shard::has_first_weights() const {
  return plan_ &&
         std::ranges::all_of(blocks_, [](const Held& held) { return held.block.has_weights(); });
}

void Shard::put(Held& held, std::span<const float> weights) {
  Record record{Record::Kind::weights};
  record.key = held.info.key;
  write(record, {bytes_of(weights)});
  std::ranges::copy(weights, held.block.weights().begin());
  held.block.have_weights();
}

void Shard::done(int worker) {
  if (is_done(worker)) return;
  write({Record::Kind::done, static_cast<std::uint32_t>(worker)});
  leave(worker);
}

bool Shard::everybody_is_done() const {
  return std::ranges::all_of(done_, [](std::uint8_t done) { return done != 0; });
}

void Shard::leave(int worker) {
  if (is_done(worker)) return;
  done_[static_cast<std::size_t>(worker)] = 1;
  clerk_.leave(worker);
  for (Held& held : blocks_) held.block.leave(worker);
}

Task<std::uint64_t> Shard::next_unit(int worker, std::uint64_t answers) {
  const auto who = static_cast<std::uint32_t>(worker);
  if (answers < clerk_.told(worker)) co_return clerk_.last_told(worker);  // it was lost on its way
  write({Record::Kind::ask, who});
  clerk_.ask(worker);
  while (clerk_.has_to_wait(worker)) co_await clerk_.changed().rung();
  write({Record::Kind::tell, who});
  co_return clerk_.tell(worker);
}

void Shard::stop() {
  write({Record::Kind::stop});
  clerk_.stop();
}

std::size_t Shard::largest_record_bytes() const {
  constexpr std::size_t kOfAWorker = 256, kOfNames = 1 << 16;  // more than snapshots take for them
  const std::size_t of_workers = kOfNames + done_.size() * kOfAWorker;
  if (!plan_) return kMaxKeys * sizeof(KeyInfo) + of_workers;
  std::size_t elements = 0;
  for (const Held& held : blocks_) elements = std::max(elements, held.block.weights().size());
  // Weights, what the optimizer keeps, and what each worker has read.
  return elements * sizeof(float) * (3 + done_.size()) + of_workers;
}

namespace {
[[noreturn]] void refuse() {
  throw Error("a record of a shard's journal makes no sense",
              "all servers must run the same program with the same settings");
}

// Bytes as values of a type; they lie where that type may.
template <class T>
std::span<const T> values_in(ConstBytes bytes) {
  if (bytes.size() % sizeof(T) != 0) refuse();
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}
}  // namespace

Shard::Held& Shard::held_of(const Record& record) {
  const auto found =
      std::ranges::find(blocks_, record.key, [](const Held& h) { return h.info.key; });
  if (found == blocks_.end()) refuse();
  return *found;
}

void Shard::replay_outline(const Record& record, ConstBytes bytes) {
  if (record.count > kMaxKeys || record.units_per_epoch == 0 ||
      bytes.size() < record.count * sizeof(KeyInfo)) {
    refuse();
  }
  plan_ = {record.units, record.units_per_epoch};
  clerk_.plan(*plan_);
  const Snapshot rest = decode_snapshot(bytes.subspan(record.count * sizeof(KeyInfo)));
  visit_outline(State::restoring(rest));
  make_blocks(values_in<KeyInfo>(bytes.first(record.count * sizeof(KeyInfo))));
  for (Held& held : blocks_) held.is_known = false;
}

void Shard::replay(const Record& record, ConstBytes bytes) {
  using enum Record::Kind;
  const auto workers = static_cast<std::uint64_t>(options_.workers);
  const int worker = static_cast<int>(record.worker);
  const bool begins = record.kind == plan || record.kind == outline;
  if (record.worker >= workers || begins == plan_.has_value()) refuse();
  replaying_ = true;  // the journal has this record already
  switch (record.kind) {
    case plan:
      if (record.units_per_epoch == 0) refuse();
      make({record.units, record.units_per_epoch}, values_in<KeyInfo>(bytes));
      break;
    case outline:
      replay_outline(record, bytes);
      break;
    case state: {
      Held& held = held_of(record);
      held.is_known = true;
      if (bytes.empty()) break;
      const Snapshot snapshot = decode_snapshot(bytes);
      held.block.visit_state(State::restoring(snapshot));
      break;
    }
    case weights: {
      Held& held = held_of(record);
      if (!held.is_known) break;
      if (bytes.size() != held.block.weights().size_bytes()) refuse();
      put(held, values_in<float>(bytes));
      break;
    }
    case update: {
      Held& held = held_of(record);
      const std::size_t of_notes = record.count * sizeof(PushNote);
      if (record.count == 0 || record.count > workers ||
          bytes.size() != of_notes + held.block.weights().size_bytes()) {
        refuse();
      }
      if (!held.is_known) break;
      replayed_.clear();
      for (const PushNote& note : values_in<PushNote>(bytes.first(of_notes))) {
        if (note.worker >= workers || note.version > held.block.version()) refuse();
        replayed_.push_back({static_cast<int>(note.worker), note.clock, note.version, {}});
      }
      held.block.replay({replayed_, values_in<float>(bytes.subspan(of_notes)), record.lr_factor});
      report_.dropped = record.dropped;
      break;
    }
    case read:
      if (Held& held = held_of(record); held.is_known) held.block.replay_read(worker);
      break;
    case ask:
      clerk_.ask(worker);
      break;
    case tell:
      clerk_.tell(worker);
      break;
    case stop:
      clerk_.stop();
      break;
    case done:
      leave(worker);
      break;
    default:
      refuse();
  }
  replaying_ = false;
}

}  // namespace starling
