// A worker's side of the clerk: the next unit of work, and the wish that nobody do any more.
#pragma once

#include "runtime/group.h"
#include "server/clerk.h"
#include "server/messages.h"

namespace starling {

class ClerkClient {
 public:
  // The group of workers and servers, and the place in it of the server that keeps the clerk.
  ClerkClient(Group group, int server) : group_(group), server_(server) {}

  // Clerk::kNoMore: nothing. Asking says that the unit before is done.
  Task<std::uint64_t> next() const {
    ControlRequest request;
    request.kind = ControlRequest::Kind::work;
    WorkReply reply;
    co_await group_.send(server_, kRequestChannel, object_bytes(request));
    co_await group_.receive(server_, kReplyChannel, object_bytes(reply));
    co_return reply.unit;
  }

  Task<> stop() const {
    ControlRequest request;
    request.kind = ControlRequest::Kind::stop;
    co_await group_.send(server_, kRequestChannel, object_bytes(request));
  }

 private:
  Group group_;
  int server_;
};

}  // namespace starling
