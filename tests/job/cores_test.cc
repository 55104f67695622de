#include "job/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace starling {
namespace {

TEST(Cores, AreSharedByTheWorkersOfAMachine) {
  EXPECT_EQ(threads_of_worker({64, 64}, 1), 64);
  EXPECT_EQ(threads_of_worker({64, 64}, 4), 16);
  EXPECT_EQ(threads_of_worker({2, 2}, 3), 1);
}

TEST(Cores, ThatAWorkerMayNotUseGetNoThreads) {
  EXPECT_EQ(threads_of_worker({64, 2}, 4), 2);  // each bound to two of its own
  EXPECT_EQ(threads_of_worker({8, 8}, 4), 2);   // a part of the machine, of all of them
  EXPECT_EQ(threads_of_worker({64, 48}, 4), 16);
}

TEST(Cores, AreCountedAsTheSystemHasBoundUs) {
  Cores bound;
  std::thread([&] {  // a binding is a thread's
    cpu_set_t set;
    ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
    int first = 0;
    while (!CPU_ISSET(first, &set)) ++first;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
    bound = own_cores();
  })
      .join();
  EXPECT_EQ(bound.usable, 1);
  EXPECT_EQ(bound.there, own_cores().there);
}

}  // namespace
}  // namespace starling
