#include "base/state.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace starling {
namespace {

struct Part {
  std::vector<float> velocity;
  std::uint64_t steps = 0;
  bool ahead = false;
  Random random{1};
  std::string text = {};
  std::vector<std::int64_t> list = {};

  void visit_state(State state) {
    state.shared()("velocity", velocity);
    state("steps", steps);
    state("ahead", ahead);
    state("random", random);
    state("text", text);
    state.of_any_length("list", list);
  }
};

Part some_part() {
  Part part{{1.5f, -2.25f}, 7, true, Random{3}, "cut", {4, 5, 6}};
  for (int i = 0; i < 400; ++i) part.random.bits();  // beyond the first block of the engine
  return part;
}

Snapshot snapshot_of(Part& part) {
  Snapshot snapshot;
  part.visit_state(State::saving(snapshot).in("part"));
  return snapshot;
}

TEST(State, TheSameListSavesAndRestores) {
  Part before = some_part();
  const Snapshot snapshot = decode_snapshot(encode(snapshot_of(before)));
  Part after{{0, 0}};
  after.visit_state(State::restoring(snapshot).in("part"));
  EXPECT_EQ(after.velocity, before.velocity);
  EXPECT_EQ(after.steps, 7u);
  EXPECT_TRUE(after.ahead);
  EXPECT_EQ(after.text, "cut");
  EXPECT_EQ(after.list, before.list);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(after.random.bits(), before.random.bits());
}

TEST(State, WithoutAPastNothingChanges) {
  Part part = some_part();
  part.visit_state(State());
  EXPECT_EQ(part.velocity, some_part().velocity);
  EXPECT_EQ(part.random.bits(), some_part().random.bits());
}

TEST(State, WhatAllHaveAlikeIsAllThatAnotherNumberGets) {
  Part before = some_part();
  const Snapshot shared = snapshot_of(before).shared();
  Part after{{0, 0}};
  const State state = State::restoring(shared).in("part");
  EXPECT_TRUE(state.restores());
  EXPECT_FALSE(state.restores_all());
  after.visit_state(state);
  EXPECT_EQ(after.velocity, before.velocity);
  EXPECT_EQ(after.steps, 0u);
  EXPECT_EQ(after.random.bits(), Random{1}.bits());
}

TEST(State, RefusesWhatIsMissingOrOfAnotherLength) {
  Part before = some_part();
  Snapshot snapshot = snapshot_of(before);
  Part longer{{0, 0, 0}};
  EXPECT_THROW(longer.visit_state(State::restoring(snapshot).in("part")), Error);
  snapshot.parts.erase("part/steps");
  Part after{{0, 0}};
  EXPECT_THROW(after.visit_state(State::restoring(snapshot).in("part")), Error);
}

TEST(State, TakesNoPlaceOutsideOfARandomEngine) {
  Part before = some_part();
  Snapshot snapshot = snapshot_of(before);
  std::vector<std::byte>& words = snapshot.parts["part/random"].bytes;
  words[words.size() - 1] = std::byte{1};  // the highest byte of its place
  Part after{{0, 0}};
  EXPECT_THROW(after.visit_state(State::restoring(snapshot).in("part")), Error);
}

TEST(State, EveryCutAndEveryChangedLengthOfASnapshotIsRefused) {
  Part before = some_part();
  const std::vector<std::byte> whole = encode(snapshot_of(before));
  EXPECT_EQ(whole.size(), encoded_bytes(snapshot_of(before)));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_THROW(decode_snapshot(ConstBytes(whole).first(bytes)), Error) << bytes;
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_THROW(decode_snapshot(longer), Error);
  for (std::size_t byte = 8; byte < 24; ++byte) {  // the header of the first part
    std::vector<std::byte> changed = whole;
    changed[byte] ^= std::byte{0x80};
    EXPECT_THROW(decode_snapshot(changed), Error) << byte;
  }
}

TEST(State, APartUnderAPrefixStandsForItself) {
  Part before = some_part();
  Snapshot snapshot = snapshot_of(before);
  snapshot.parts["parting"].bytes.resize(3);
  Part after{{0, 0}};
  const Snapshot under = snapshot.under("part/");
  EXPECT_EQ(under.parts.size(), 6u);
  after.visit_state(State::restoring(under));
  EXPECT_EQ(after.steps, 7u);
}

}  // namespace
}  // namespace starling
