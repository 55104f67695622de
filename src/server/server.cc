#include "server/server.h"

#include <algorithm>

#include "runtime/all.h"
#include "server/desk.h"

namespace starling {

Server::Server(Group group, const ServerOptions& options, State past) {
  for (int distance = 0; distance < options.chain.replicas; ++distance) {
    desks_.push_back(std::make_unique<Desk>(group, options, distance, past));
  }
  if (options.elastic) return;
  if (options.chain.replicates()) {
    group.contain_losses();
  } else if (!make_gate(options.gate)->needs_everybody()) {
    group.first(options.workers * options.worker_stride, 0).contain_losses();
  }
}

Server::~Server() = default;

Task<> Server::serve() {
  std::vector<Task<>> all_desks;
  for (const auto& desk : desks_) all_desks.push_back(desk->serve());
  return all(std::move(all_desks));
}

const ServerReport& Server::report() const { return desks_.front()->report(); }

std::uint64_t Server::training_bytes_sent() const {
  std::uint64_t most = 0;
  for (const auto& desk : desks_) most = std::max(most, desk->training_bytes_sent());
  return most;
}

void Server::visit_state(State state) {
  desks_.front()->visit_state(state);
  for (std::size_t taken_over = 1; taken_over < desks_.size(); ++taken_over) {
    if (desks_[taken_over]->is_head()) desks_[taken_over]->visit_blocks(state);
  }
}

void Server::visit_blocks(State state) {
  for (const auto& desk : desks_) desk->visit_blocks(state);
}

bool Server::has_weights() const { return desks_.front()->has_weights(); }

bool Server::has_all_copies() const {
  return std::ranges::all_of(desks_, [](const auto& desk) { return desk->has_weights(); });
}

void Server::on_save(const Keep& keep) {
  for (const auto& desk : desks_) desk->on_save(keep);
}

void Server::follow(Block::Follower follower) {
  for (const auto& desk : desks_) desk->follow(follower);
}

}  // namespace starling
