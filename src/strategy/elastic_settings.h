// Whether workers may come and go while a job runs.
#pragma once

#include "base/setting.h"

namespace starling {

struct ElasticSettings {
  bool on = false;
  int min_workers = 1;
  int max_workers = 0;

  template <class Self, class Visitor>
  static void visit(Self& s, Visitor&& visit) {
    const Use use{s.on, "elastic"};
    visit({"elastic", Section::together,
           "go on when workers are lost, and let others join (`starling join`)"},
          s.on);
    visit({"min_workers", Section::together,
           "elastic: with fewer, those who are left wait for others", use},
          s.min_workers, 1, 4096);
    visit({"max_workers", Section::together,
           "elastic: more than that wait at the door; 0: as many as come", use},
          s.max_workers, 0, 4096);
  }
};

}  // namespace starling
