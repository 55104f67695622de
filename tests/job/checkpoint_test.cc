#include "job/checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "job/past.h"
#include "tests/error_of.h"
#include "tests/process.h"

namespace starling {
namespace {

using nlohmann::json;

Snapshot some_snapshot(std::uint64_t seed) {
  Snapshot snapshot;
  Random random{seed};
  std::vector<float> weights(1000);
  for (float& weight : weights) weight = static_cast<float>(random.normal());
  State::saving(snapshot)("weights", weights);
  State::saving(snapshot)("random", random);
  return snapshot;
}

class Checkpoints : public testing::Test {
 protected:
  std::filesystem::path in(const std::string& name) const { return folder_.path() / name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(in(name), std::ios::binary) << text;
  }

  TemporaryFolder folder_;
};

TEST_F(Checkpoints, AFileIsReadAsItWasWritten) {
  const Snapshot snapshot = some_snapshot(1);
  const StateFile file = write_state_file(folder_.path(), 2, 1200, snapshot);
  EXPECT_EQ(file.name, "step-1200-rank-2.state");
  EXPECT_EQ(file.bytes, std::filesystem::file_size(in(file.name)));
  EXPECT_EQ(read_state_file(folder_.path(), file), snapshot);
  EXPECT_EQ(state_file_in(as_json(file)), file);
  EXPECT_EQ(state_file_named(file.name)->rank, 2);
  EXPECT_EQ(state_file_named(file.name)->step, 1200u);
  EXPECT_FALSE(state_file_named("step-1200-rank-2.state.77-0.tmp"));
  EXPECT_FALSE(state_file_named("step-x-rank-2.state"));
}

TEST_F(Checkpoints, EveryAlteredByteIsNoticed) {
  const StateFile file = write_state_file(folder_.path(), 0, 7, some_snapshot(1));
  const std::string whole = file_text(in(file.name));
  for (std::size_t at = 0; at < whole.size(); at += 97) {
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ 1);
    write(file.name, altered);
    EXPECT_NE(error_of([&] { read_state_file(folder_.path(), file); }).find("hash"),
              std::string::npos);
  }
  write(file.name, whole.substr(0, whole.size() - 1));
  EXPECT_NE(error_of([&] { read_state_file(folder_.path(), file); }).find("bytes"),
            std::string::npos);
  std::filesystem::remove(in(file.name));
  EXPECT_NE(error_of([&] { read_state_file(folder_.path(), file); }).find("is not there"),
            std::string::npos);
}

TEST_F(Checkpoints, AFileWhoseHashIsRightMayStillBeNonsense) {
  StateFile file = write_state_file(folder_.path(), 0, 7, Snapshot());
  Snapshot other;
  other.parts["x"].bytes.resize(8);
  const std::vector<std::byte> bytes = encode(other);
  write(file.name, std::string("starling-state-1") +
                       std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size() - 3));
  file.bytes = std::filesystem::file_size(in(file.name));
  file.sha256 = [&] {  // what whoever alters both would write
    Process process({"sha256sum", in(file.name).string()});
    process.wait(10s);
    return process.out().substr(0, 64);
  }();
  EXPECT_NE(error_of([&] { read_state_file(folder_.path(), file); }).find("does not fit"),
            std::string::npos);
}

TEST_F(Checkpoints, AManifestIsReadAsItWasWritten) {
  Manifest manifest{42, 2, 1, {}};
  for (int rank = 0; rank < 3; ++rank) {
    manifest.files.push_back(write_state_file(folder_.path(), rank, 42, some_snapshot(1)));
  }
  write(manifest_name(42, 0, 1), as_text(manifest));
  EXPECT_EQ(read_manifest(in("0000000042.json")), manifest);
  EXPECT_EQ(manifest.step(), 42u);
  EXPECT_EQ(manifest.find(3), nullptr);
}

TEST_F(Checkpoints, AManifestThatCannotBeIsRefused) {
  const auto with = [&](const std::string& field, json value) {
    json text = {{"version", 1}, {"number", 1}, {"workers", 1}, {"servers", 0}};
    text["files"] = {{{"rank", 0},
                      {"step", 5},
                      {"file", "step-5-rank-0.state"},
                      {"bytes", 1},
                      {"sha256", "00"}}};
    if (text.contains(field)) {
      text[field] = value;
    } else if (!field.empty()) {
      text["files"][0][field] = value;
    }
    write("a.json", text.dump());
    return error_of([&] { read_manifest(in("a.json")); });
  };
  EXPECT_EQ(with("", 0), "no error");
  EXPECT_NE(with("version", 2), "no error");
  EXPECT_NE(with("workers", 0), "no error");
  EXPECT_NE(with("workers", 2'147'483'647), "no error");
  EXPECT_NE(with("servers", 2'147'483'647), "no error");
  EXPECT_NE(with("servers", -1), "no error");
  EXPECT_NE(with("files", 7), "no error");
  EXPECT_NE(with("rank", 1), "no error") << "there is one worker";
  EXPECT_NE(with("rank", -1), "no error");
  EXPECT_NE(with("step", "many"), "no error");
  EXPECT_NE(with("file", "../step-5-rank-0.state"), "no error") << "a file elsewhere";
  EXPECT_NE(with("file", "/etc/passwd"), "no error");
  write("a.json", "{");
  EXPECT_NE(error_of([&] { read_manifest(in("a.json")); }), "no error");
}

TEST_F(Checkpoints, AreWrittenBesideTheWorkAndToldOf) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  Job job;
  job.events_fd = pipe[1];
  {
    CheckpointWriter writer(job, in("new") / "folder");
    writer.write(10, 1, 4, some_snapshot(1));
  }
  ::close(pipe[1]);
  std::string said(10'000, ' ');
  said.resize(static_cast<std::size_t>(::read(pipe[0], said.data(), said.size())));
  ::close(pipe[0]);
  const json event = json::parse(said);
  EXPECT_EQ(event["event"], "checkpoint");
  EXPECT_EQ(event["generation"], 4);
  EXPECT_EQ(read_state_file(in("new") / "folder", state_file_in(event)), some_snapshot(1));
}

TEST_F(Checkpoints, WhatCannotBeWrittenIsToldOf) {
  write("taken", "a file where the folder should be");
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  Job job;
  job.events_fd = pipe[1];
  { CheckpointWriter(job, in("taken")).write(10, 1, 4, some_snapshot(1)); }
  ::close(pipe[1]);
  std::string said(10'000, ' ');
  said.resize(static_cast<std::size_t>(::read(pipe[0], said.data(), said.size())));
  ::close(pipe[0]);
  EXPECT_TRUE(json::parse(said).contains("error")) << said;
}

Snapshot worker_with(std::vector<float> weights, float share, std::int64_t step) {
  Snapshot snapshot;
  const State state = State::saving(snapshot);
  std::vector<float> momentum = {weights[0] * 10};
  state(kWeightsState, weights);
  state(kShareState, share);
  state.in(kOptimizerState).in(0)("momentum", momentum);
  state.in(kOptimizerState).in(0).in("single")("step", step);
  state.in(kStrategyState)("residual", weights);
  state.in(kStrategyState).shared()("velocity", weights);
  return snapshot;
}

std::vector<float> floats_of(const Snapshot& snapshot, const std::string& name) {
  std::vector<float> values;
  State::restoring(snapshot).of_any_length(name, values);
  return values;
}

TEST(MergedPast, IsWhatAllWouldHaveAgreedOn) {
  MergedPast merged;
  merged.add(worker_with({1, 2}, 1, 300));
  merged.add(worker_with({4, 8}, 3, 500));
  const Snapshot past = merged.result();
  EXPECT_TRUE(past.partial);
  EXPECT_EQ(floats_of(past, "weights"), (std::vector<float>{3.25, 6.5})) << "by their shares";
  EXPECT_EQ(floats_of(past, "optimizer/0/momentum"), std::vector<float>{25});
  std::int64_t step = 0;
  State::restoring(past)("optimizer/0/single/step", step);
  EXPECT_EQ(step, 500);
  EXPECT_EQ(floats_of(past, "strategy/velocity"), (std::vector<float>{1, 2}));
  EXPECT_FALSE(past.parts.contains("strategy/residual"));
}

TEST(MergedPast, OfReplicasThatAreTheSameIsTheSameToTheBit) {
  Random random{7};
  std::vector<float> weights(1000);
  for (float& weight : weights) weight = static_cast<float>(random.normal());
  MergedPast merged;
  for (int i = 0; i < 7; ++i) merged.add(worker_with(weights, 1, 1));
  EXPECT_EQ(floats_of(merged.result(), "weights"), weights);
}

TEST(MergedPast, IsOfOneModel) {
  MergedPast merged;
  merged.add(worker_with({1, 2}, 1, 1));
  EXPECT_THROW(merged.add(worker_with({1, 2, 3}, 1, 1)), Error);
  EXPECT_THROW(MergedPast().result(), Error);
}

TEST(MergedPast, AModelThatCountsForAllIsAll) {
  Snapshot master = worker_with({1, 2}, 1, 1);
  std::vector<float> model = {7, 9};
  State::saving(master)(kFinalState, model);
  MergedPast merged;
  merged.add(master);
  merged.add(worker_with({100, 100}, 0, 1));
  EXPECT_EQ(floats_of(merged.result(), "weights"), model);
}

}  // namespace
}  // namespace starling
