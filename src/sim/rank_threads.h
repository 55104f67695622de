// Programs that are no coroutines, on a Cluster: each rank's runs in a thread of its own, so that it
// can wait for the others wherever it is (Loop::run), with all that is on its stack. A layer that
// exchanges in the middle of a forward or backward pass does that.
//
// One thread runs at a time. The world's hands a baton to a rank's, which hands it back when it waits
// and when it is done, so a run depends on nothing but its inputs, as with coroutines. A rank that is
// crashed, or waits when the simulation is stuck, has its wait end by an exception: its stack unwinds,
// and no thread outlives the run.
//
// - What has been started on a rank's thread goes on, once it has waited, on the world's. So a
//   coroutine must not wait in that way, only the program itself.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "sim/cluster.h"

namespace starling {

// The program, for Cluster::run() and its like. What a process has one of and a rank should have, such
// as a stream of random numbers, `swap` exchanges for the rank's own: it is called when the rank gets
// the baton and when it gives it back.
Cluster::Program in_threads(
    std::function<void(Comm&)> program, std::function<void(int rank)> swap = [](int) {});

class RankThread {
 public:
  RankThread(Loop& loop, std::function<void()> program, std::function<void()> swap);
  ~RankThread();
  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;

  // The one that calls, if it runs in that world.
  static RankThread* current(const Loop& loop);

  // Lets it run until it waits, and returns for what; nullptr: it is done. Throws its error.
  Running* go_on();
  // By the thread itself: until the task is done.
  void wait_for(Running& running);

 private:
  void run(const std::function<void()>& program);
  void hand_back();

  Loop& loop_;
  std::function<void()> swap_;
  std::mutex mutex_;
  std::condition_variable handed_over_;
  bool has_baton_ = false;
  bool cancelled_ = false;
  bool done_ = false;
  Running* awaited_ = nullptr;
  std::exception_ptr error_;
  std::thread thread_;  // the last: it looks at all others
};

}  // namespace starling
