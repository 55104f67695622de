#include "runtime/list.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/check.h"

namespace starling {
namespace {

struct Item : ListNode {
  explicit Item(int number) : value(number) {}
  int value;
};

std::vector<int> drain(List<Item>& list) {
  std::vector<int> values;
  while (Item* item = list.front()) {
    STARLING_CHECK(values.size() < 10, "the list has no end");
    values.push_back(item->value);
    item->unlink();
  }
  return values;
}

TEST(List, KeepsTheOrderInWhichItemsCame) {
  List<Item> list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.front(), nullptr);
  Item one(1), two(2), three(3);
  for (Item* item : {&two, &one, &three}) list.push_back(*item);
  EXPECT_FALSE(list.empty());
  EXPECT_EQ(drain(list), (std::vector<int>{2, 1, 3}));
  EXPECT_TRUE(list.empty());
  EXPECT_FALSE(one.linked());
}

TEST(List, LosesAnItemThatIsDestroyed) {
  for (int gone = 1; gone <= 3; ++gone) {  // the first, one in the middle, the last
    List<Item> list;
    std::vector<std::unique_ptr<Item>> items;
    for (int i = 1; i <= 3; ++i) {
      items.push_back(std::make_unique<Item>(i));
      list.push_back(*items.back());
    }
    items[static_cast<std::size_t>(gone - 1)].reset();
    std::vector<int> left = {1, 2, 3};
    std::erase(left, gone);
    EXPECT_EQ(drain(list), left);
  }
}

TEST(List, LosesItsOnlyItem) {
  List<Item> list;
  {
    Item item(1);
    list.push_back(item);
  }
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.find([](const Item&) { return true; }), nullptr);
}

TEST(List, LetsItsItemsGoWhenItIsDestroyedFirst) {
  Item one(1), two(2);
  {
    List<Item> list;
    list.push_back(one);
    list.push_back(two);
    EXPECT_TRUE(one.linked());
  }
  EXPECT_FALSE(one.linked());
  EXPECT_FALSE(two.linked());
}

TEST(List, HoldsAnItemOnceAndInOneListOnly) {
  List<Item> list, other;
  Item one(1), two(2);
  list.push_back(one);
  list.push_back(two);
  list.push_back(one);  // moves to the end
  EXPECT_EQ(drain(list), (std::vector<int>{2, 1}));
  list.push_back(one);
  list.push_back(two);
  other.push_back(one);
  EXPECT_EQ(drain(list), std::vector<int>{2});
  EXPECT_EQ(drain(other), std::vector<int>{1});
}

TEST(List, FindsTheFirstThatIsWanted) {
  List<Item> list;
  Item one(1), two(2), another_two(2);
  for (Item* item : {&one, &two, &another_two}) list.push_back(*item);
  EXPECT_EQ(list.find([](const Item& item) { return item.value == 2; }), &two);
  EXPECT_EQ(list.find([](const Item& item) { return item.value == 3; }), nullptr);
}

TEST(List, UnlinkingTwiceDoesNothing) {
  List<Item> list;
  Item one(1), two(2);
  list.push_back(one);
  list.push_back(two);
  one.unlink();
  one.unlink();
  EXPECT_EQ(drain(list), std::vector<int>{2});
}

}  // namespace
}  // namespace starling
