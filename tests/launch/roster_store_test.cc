#include "launch/roster_store.h"

#include <gtest/gtest.h>

#include <mutex>

#include "base/error.h"
#include "launch/store_keeper.h"
#include "launch/stored_job.h"
#include "tests/error_of.h"
#include "tests/etcd_server.h"

namespace starling {
namespace {

const std::string kSecret = "a secret of this test";

TEST(KeptJob, ComesBackFromItsText) {
  const KeptJob job{3, 7, {"10.0.0.1:1", "10.0.0.2:2"}, "/runs/a \"b\"", true};
  EXPECT_EQ(kept_job_in(as_text(job)), job);
  for (const char* wrong : {"", "{}", "[]", "{\"start\": 1}",
                            R"({"start":0,"generation":1,"doors":[],"run":"","ended":false})",
                            R"({"start":1,"generation":"x","doors":[],"run":"","ended":false})",
                            R"({"start":1,"generation":1,"doors":[3],"run":"","ended":false})"}) {
    EXPECT_THROW(kept_job_in(wrong), Error) << wrong;
  }
}

class Stored : public testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdServer::is_installed()) GTEST_SKIP() << EtcdServer::kMissing;
    server_.emplace();
  }
  RosterStore store(const std::string& secret = kSecret) {
    return RosterStore(server_->url("job"), secret);
  }
  Etcd etcd() { return Etcd(parse_etcd_url(server_->url("")).endpoints); }

  std::unique_ptr<StoreKeeper> keeper(std::uint64_t start) {
    return std::make_unique<StoreKeeper>(store(), start, [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      said_.push_back(line);
    });
  }
  bool said(const std::string& part) {
    return wait_until(60s, [&] {
      const std::lock_guard lock(mutex_);
      return std::ranges::any_of(
          said_, [&](const auto& line) { return line.find(part) != std::string::npos; });
    });
  }
  bool comes_to(std::uint64_t generation) {
    return wait_until(60s, [&] { return store().read().job.generation == generation; });
  }
  bool comes_to_doors(const std::vector<std::string>& doors) {
    return wait_until(60s, [&] { return store().doors() == doors; });
  }

  std::optional<EtcdServer> server_;
  std::mutex mutex_;
  std::vector<std::string> said_;
};

TEST_F(Stored, IsReadOnlyByWhoKnowsTheSecret) {
  RosterStore own = store();
  EXPECT_EQ(own.read().job.start, 0u);
  EXPECT_TRUE(own.write({1, 2, {"a:1"}, "/run", false}, 0));
  EXPECT_EQ(own.read().job, (KeptJob{1, 2, {"a:1"}, "/run", false}));
  own.put_door("a:1", own.grant());
  RosterStore other = store("another secret than that");
  EXPECT_NE(error_of([&] { other.read(); }).find("another secret"), std::string::npos);
  EXPECT_TRUE(other.doors().empty());
  for (const Etcd::Value& each : etcd().all_under("/")) {
    EXPECT_EQ((each.key + each.text).find(kSecret), std::string::npos);
  }
}

// As one could who may write into etcd, and knows no secret.
TEST_F(Stored, IsNotTakenFromElsewhere) {
  RosterStore own = store();
  EXPECT_TRUE(own.write({1, 2, {"a:1"}, "/run", false}, 0));
  own.put_door("a:1", own.grant());
  Etcd etcd = this->etcd();
  const std::string door = etcd.get("/job/doors/a:1")->text, job = etcd.get("/job/job")->text;
  etcd.put("/job/doors/evil:1", door, 0);
  etcd.put("/job/doors/none:1", "", 0);
  EXPECT_EQ(own.doors(), (std::vector<std::string>{"a:1"}));
  etcd.put("/other/job", job, 0);
  RosterStore beside(server_->url("other"), kSecret);
  EXPECT_THROW(beside.read(), Error);
  std::string altered = job;
  altered[altered.find("a:1")] = 'b';
  etcd.put("/job/job", altered, 0);
  EXPECT_THROW(own.read(), Error);
}

TEST_F(Stored, HasTheDoorsOfWhoeverIsThere) {
  auto first = keeper(1), second = keeper(1);
  first->set_doors({"a:1", "a:2"});
  second->set_doors({"b:1"});
  EXPECT_TRUE(comes_to_doors({"a:1", "a:2", "b:1"}));
  first->set_doors({"a:2", "a:3"});
  EXPECT_TRUE(comes_to_doors({"a:2", "a:3", "b:1"}));
  first.reset();
  EXPECT_EQ(store().doors(), (std::vector<std::string>{"b:1"}));
}

TEST_F(Stored, TakesNoEarlierRosterInPlaceOfALater) {
  RosterStore own = store();
  const std::uint64_t start = enter_start(own, own.read(), "/run");
  EXPECT_EQ(start, 1u);
  auto one = keeper(start), other = keeper(0);
  one->set_roster(1, {"a:1", "b:1"});
  EXPECT_TRUE(comes_to(1));
  other->set_roster(3, {"b:1"});
  EXPECT_TRUE(comes_to(3));
  one->set_roster(2, {"a:1"});
  one.reset();  // has tried
  EXPECT_EQ(own.read().job, (KeptJob{1, 3, {"b:1"}, "/run", false}));
  // Another of the same generation: the first to write has written.
  auto third = keeper(start);
  third->set_roster(3, {"c:1"});
  third.reset();
  EXPECT_EQ(own.read().job.doors, (std::vector<std::string>{"b:1"}));
  // Started anew: who is left of the start before writes no more.
  EXPECT_EQ(enter_start(own, own.read(), "/run"), 2u);
  other->set_roster(9, {"b:1"});
  other->end();
  other.reset();
  EXPECT_EQ(own.read().job, (KeptJob{2, 0, {}, "/run", false}));
}

TEST_F(Stored, IsEnteredByOneOfTwoWhoStartAtATime) {
  RosterStore one = store(), other = store();
  const auto seen = one.read(), seen_by_other = other.read();
  EXPECT_EQ(enter_start(one, seen, ""), 1u);
  EXPECT_NE(error_of([&] { enter_start(other, seen_by_other, ""); }).find("somebody else"),
            std::string::npos);
}

TEST_F(Stored, HasAllAgainWhenItWasAway) {
  RosterStore own = store();
  auto one = keeper(enter_start(own, own.read(), "/run"));
  one->set_doors({"a:1"});
  one->set_roster(1, {"a:1"});
  EXPECT_TRUE(comes_to(1));
  server_->kill();
  EXPECT_TRUE(said("the training goes on"));
  one->set_doors({"a:2"});
  one->set_roster(2, {"a:2"});
  server_->start();
  EXPECT_TRUE(comes_to(2));
  EXPECT_TRUE(comes_to_doors({"a:2"}));
  EXPECT_TRUE(said("is back"));
  {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(said_.size(), 2u);
  }
  // Even if it has forgotten everything.
  server_->kill();
  server_->forget();
  server_->start();
  EXPECT_TRUE(comes_to(2));
  EXPECT_TRUE(comes_to_doors({"a:2"}));
  EXPECT_EQ(own.read().job, (KeptJob{1, 2, {"a:2"}, "/run", false}));
  one->end();
  one.reset();
  EXPECT_TRUE(own.read().job.ended);
}

TEST_F(Stored, SaysOfWhomNobodyIsThere) {
  RosterStore own = store();
  Job job;
  job.secret = kSecret;
  const auto said = [&] { return error_of([&] { find_member(own, job); }); };
  EXPECT_NE(said().find("knows of no job"), std::string::npos) << said();
  const std::string nobody = free_address();
  EXPECT_TRUE(own.write({1, 2, {nobody}, "", false}, 0));
  EXPECT_NE(said().find(nobody), std::string::npos) << said();
  EXPECT_NE(said().find("start it again"), std::string::npos) << said();
  EXPECT_TRUE(own.write({1, 2, {nobody}, "", true}, own.read().revision));
  EXPECT_NE(said().find("come to its end"), std::string::npos) << said();
}

}  // namespace
}  // namespace starling
