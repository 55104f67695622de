// An intrusive doubly linked list: what waits is linked through itself, so queues allocate nothing,
// and an object that is destroyed leaves whatever list it is in.
#pragma once

namespace starling {

class ListNode {
 public:
  ListNode() = default;
  ListNode(const ListNode&) = delete;
  ListNode& operator=(const ListNode&) = delete;
  ~ListNode() { unlink(); }

  bool linked() const { return next_ != nullptr; }
  void unlink() {
    if (next_ == nullptr) return;
    prev_->next_ = next_;
    next_->prev_ = prev_;
    next_ = prev_ = nullptr;
  }

 private:
  template <class T>
  friend class List;
  ListNode* prev_ = nullptr;
  ListNode* next_ = nullptr;
};

// T derives from ListNode.
template <class T>
class List {
 public:
  List() { head_.next_ = head_.prev_ = &head_; }
  ~List() {
    while (!empty()) front()->unlink();
    head_.next_ = head_.prev_ = nullptr;
  }

  bool empty() const { return head_.next_ == &head_; }
  T* front() { return empty() ? nullptr : static_cast<T*>(head_.next_); }

  void push_back(T& item) {
    ListNode& node = item;
    node.unlink();
    node.prev_ = head_.prev_;
    node.next_ = &head_;
    head_.prev_->next_ = &node;
    head_.prev_ = &node;
  }

  // The first item that satisfies the predicate, or nullptr.
  template <class Predicate>
  T* find(Predicate&& wanted) {
    for (ListNode* node = head_.next_; node != &head_; node = node->next_) {
      if (wanted(static_cast<T&>(*node))) return static_cast<T*>(node);
    }
    return nullptr;
  }

 private:
  ListNode head_;
};

}  // namespace starling
